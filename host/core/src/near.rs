//! Typing errors: which of the known texts was most likely meant.

/// The known text that was most likely meant, if any.
#[must_use]
pub fn nearest<'a>(given: &str, known: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let same = known.clone().find(|known| given.eq_ignore_ascii_case(known));
    same.or_else(|| known.filter_map(|known| Some((distance(given, known)?, known))).min().map(|(_, known)| known))
}

/// Whether one text is the other with a likely typing error: other capitals, or at most two letters off.
#[must_use]
pub fn is_near(given: &str, known: &str) -> bool {
    given.eq_ignore_ascii_case(known) || distance(given, known).is_some()
}

/// How many letters one text is off the other: two at most, one for short words, and nothing beyond that.
fn distance(given: &str, known: &str) -> Option<usize> {
    let most = if known.len() < 5 { 1 } else { 2 };
    // Distances of long texts cost their product, and a long unknown key is no typing error.
    if given.len() > 2 * known.len() || known.len() < 3 {
        return None;
    }
    let known: Vec<char> = known.chars().collect();
    let mut row: Vec<usize> = (0..=known.len()).collect();
    for (index, given) in given.chars().enumerate() {
        let mut diagonal = index;
        let mut left = index + 1;
        for (cell, known) in row.iter_mut().skip(1).zip(&known) {
            let above = *cell;
            let replaced = diagonal + usize::from(given != *known);
            left = replaced.min(above + 1).min(left + 1);
            diagonal = above;
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = index + 1;
        }
    }
    row.last().copied().filter(|distance| *distance <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_is_the_same_in_other_capitals_or_at_most_two_letters_off() {
        let known = ["interval", "settle", "tier", "mode"];
        for (given, wanted) in [
            ("Interval", Some("interval")),
            ("intervall", Some("interval")),
            ("intevrall", None),
            ("setle", Some("settle")),
            ("teir", None),
            ("tiers", Some("tier")),
            ("", None),
            ("something", None),
        ] {
            assert_eq!(nearest(given, known.into_iter()), wanted, "{given}");
        }
    }
}

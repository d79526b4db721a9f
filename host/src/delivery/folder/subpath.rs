//! Finds out whether a file was mounted by itself: `subPath` mounts never follow their volume.

use std::path::Path;

/// Whether the file is a mount point, as this process sees it.
pub(super) fn is_mount_point(file: &Path) -> bool {
    std::fs::read_to_string("/proc/self/mountinfo").is_ok_and(|table| lists(&table, file))
}

/// Whether the table lists the file: the fifth column, with blanks as octal escapes (proc(5)).
fn lists(table: &str, file: &Path) -> bool {
    let Some(wanted) = file.to_str() else { return false };
    let wanted = wanted.replace('\\', "\\134").replace(' ', "\\040").replace('\t', "\\011").replace('\n', "\\012");
    table.lines().filter_map(|line| line.split(' ').nth(4)).any(|point| point == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
660 659 0:53 / /proc rw,nosuid - proc proc rw
671 659 254:1 /var/lib/kubelet/pods/1/volume-subpaths/acme/topoloom/0 /plugins/acme.wasm ro - ext4 /dev/vda1 rw
672 659 0:41 / /plug\\040ins ro - tmpfs tmpfs rw
";

    #[test]
    fn a_file_that_is_mounted_by_itself_is_found_and_one_in_a_mounted_folder_is_not() {
        assert!(lists(TABLE, Path::new("/plugins/acme.wasm")));
        assert!(!lists(TABLE, Path::new("/plug ins/acme.wasm")));
        assert!(lists(TABLE, Path::new("/plug ins")));
        assert!(!lists(TABLE, Path::new("/plugins")));
    }
}

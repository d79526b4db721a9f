//! A wiring as bytes: about seven for each link, and every name once.

use super::{Cable, Features, LinkState, Skipped, Stranger, Wiring};
use crate::bytes::{Reader, Writer};
use crate::guid::Guid;
use crate::interned::Interned;

impl Wiring {
    pub(crate) fn write(&self, writer: &mut Writer) {
        self.hosts.write(writer);
        self.switches.write(writer);
        self.texts.write(writer);
        for features in &self.features {
            writer.number(u64::from(features.name));
            writer.number(u64::from(features.level));
            writer.number(u64::from(features.unnamed));
        }
        writer.number(self.cables.len() as u64);
        let mut last = 0;
        for cable in &self.cables {
            last = write_cable(cable, last, writer);
        }
        writer.number(self.strangers.len() as u64);
        for stranger in &self.strangers {
            writer.number(stranger.guid.0);
            writer.number(u64::from(stranger.is_ignored));
            write_cable(&stranger.cable, 0, writer);
        }
        writer.number(self.guids.len() as u64);
        for (host, guid) in &self.guids {
            writer.number(u64::from(*host));
            writer.number(guid.0);
        }
        writer.number(self.adjacent.len() as u64);
        for &(a, b, count) in &self.adjacent {
            [a, b, count].into_iter().for_each(|number| writer.number(u64::from(number)));
        }
        writer.number(self.skipped.len() as u64);
        for skipped in &self.skipped {
            [&skipped.code, &skipped.meaning, &skipped.example].into_iter().for_each(|text| writer.text(text));
            writer.number(skipped.count);
        }
        writer.number(self.left_out.len() as u64);
        for (reason, count) in &self.left_out {
            writer.text(reason);
            writer.number(*count);
        }
        writer.number(u64::from(self.partial));
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let [hosts, switches, texts] = [Interned::read(reader)?, Interned::read(reader)?, Interned::read(reader)?];
        let mut wiring = Self { hosts, switches, texts, ..Self::default() };
        for _ in 0..wiring.switches.len() {
            let name = reader.below(wiring.texts.len())?;
            let level = Some(reader.narrow::<u8>()?).filter(|&level| level <= 16)?;
            wiring.features.push(Features { name, level, unnamed: reader.narrow()? });
        }
        let mut last = 0;
        for _ in 0..reader.count()? {
            let cable = wiring.read_cable(last, reader)?;
            last = cable.host;
            if cable.host as usize >= wiring.hosts.len() {
                return None;
            }
            wiring.cables.push(cable);
        }
        for _ in 0..reader.count()? {
            let guid = Guid(reader.number()?);
            let is_ignored = reader.below(2)? == 1;
            let cable = wiring.read_cable(0, reader)?;
            wiring.strangers.push(Stranger { guid, cable, is_ignored });
        }
        for _ in 0..reader.count()? {
            wiring.guids.push((reader.below(wiring.hosts.len())?, Guid(reader.number()?)));
        }
        let switches = wiring.switches.len();
        for _ in 0..reader.count()? {
            wiring.adjacent.push((reader.below(switches)?, reader.below(switches)?, reader.narrow()?));
        }
        for _ in 0..reader.count()? {
            let [code, meaning, example] = [reader.text()?, reader.text()?, reader.text()?].map(str::to_owned);
            wiring.skipped.push(Skipped { code, meaning, example, count: reader.number()? });
        }
        for _ in 0..reader.count()? {
            wiring.left_out.push((reader.text()?.to_owned(), reader.number()?));
        }
        wiring.partial = reader.below(2)? == 1;
        Some(wiring)
    }

    fn read_cable(&self, last: u32, reader: &mut Reader<'_>) -> Option<Cable> {
        let host = u32::try_from(reader.step(u64::from(last))?).ok()?;
        let switch = reader.below(self.switches.len())?;
        let [port, switch_port] = [reader.below(self.texts.len())?, reader.below(self.texts.len())?];
        let rest: u32 = reader.narrow()?;
        let state = if rest % 2 == 1 { LinkState::Up } else { LinkState::Down };
        Some(Cable { host, switch, port, switch_port, count: u16::try_from(rest / 2).ok()?, state })
    }
}

fn write_cable(cable: &Cable, last: u32, writer: &mut Writer) -> u32 {
    writer.step(u64::from(last), u64::from(cable.host));
    [cable.switch, cable.port, cable.switch_port].into_iter().for_each(|number| writer.number(u64::from(number)));
    writer.number(u64::from(cable.count) * 2 + u64::from(cable.state == LinkState::Up));
    cable.host
}

//! Scratch.
mod oracle;
use crossgate_agent::arch::x86_64::encode::{any_number_load, number_load};
use crossgate_launch::scan::code_map;
use object::{Object, ObjectSection, ObjectSegment};
use oracle::{decode, jumps, target};
use std::{env, fs};
#[test]
fn explore() {
    let mut files: Vec<_> =
        env::var("EXPLORE").unwrap().split_whitespace().map(String::from).collect();
    files.sort();
    for f in files {
        let Ok(file) = fs::read(&f) else { continue };
        let Ok(elf) = object::File::parse(&*file) else { continue };
        let t = std::time::Instant::now();
        let Some(m) = code_map(&file) else { continue };
        if m.sites().is_empty() {
            continue;
        }
        let text: Vec<(u64, &[u8])> = elf
            .segments()
            .filter(|s| s.permissions().executable())
            .map(|s| (s.address(), s.data().unwrap()))
            .collect();
        // full linear sweep, resyncing after invalid
        let mut tg = vec![];
        let mut ct = vec![];
        let mut bounds = std::collections::HashSet::new();
        for s in elf.sections().filter(|s| s.kind() == object::SectionKind::Text) {
            let mut d = iced_x86::Decoder::with_ip(64, s.data().unwrap(), s.address(), 0);
            while d.can_decode() {
                let i = d.decode();
                if i.is_invalid() {
                    continue;
                }
                bounds.insert(i.ip());
                if let Some(t) = target(&i) {
                    if i.flow_control() == iced_x86::FlowControl::Call {
                        ct.push((t, i.ip()))
                    } else {
                        tg.push((t, i.ip()))
                    }
                }
            }
        }
        tg.sort();
        ct.sort();
        let _ = jumps;
        let mut msgs = vec![];
        let mut blocks = 0;
        let blind = format!("{m:?}").contains("blind: true");
        for &(site, len) in m.sites() {
            let (a, b) =
                text.iter().find(|(a, b)| site >= *a && site < a + b.len() as u64).unwrap();
            let at = (site - a) as usize;
            if !bounds.contains(&site) {
                msgs.push(format!("{site:#x}: site not at a swept boundary"))
            }
            let before = &b[at - at.min(19)..at];
            if let Some(l) = any_number_load(before).and_then(|n| number_load(before, n)) {
                if !bounds.contains(&(site - l.len as u64)) {
                    msgs.push(format!("{site:#x}: load {l:?} not at boundary {:x?}", before))
                }
                if len > 0 && len != l.len {
                    msgs.push(format!("{site:#x}: load {} but movable {len}", l.len))
                }
            }
            if len > 0 {
                blocks += 1;
                let first = site - len as u64;
                if !bounds.contains(&first) {
                    msgs.push(format!("{site:#x}: block start not boundary len {len}"))
                }
                for (n, v) in [("jump", &tg), ("call", &ct)] {
                    let p = v.partition_point(|&(t, _)| t <= first);
                    if let Some(&(t, from)) = v.get(p)
                        && t < site
                    {
                        msgs.push(format!(
                            "{site:#x} len {len}: {n} from {from:#x} to {t:#x}, block {:x?}",
                            &b[at - len..at]
                        ))
                    }
                }
            }
            let _ = decode(&[], 0).next();
        }
        println!("{f}: {} sites {blocks} blocks blind {blind} {:?}", m.sites().len(), t.elapsed());
        for x in msgs.iter().take(12) {
            println!("    {x}")
        }
        if msgs.len() > 12 {
            println!("    ... {}", msgs.len())
        }
    }
}
#[test]
fn dump() {
    let f=env::var("DUMP").unwrap(); let file=fs::read(f).unwrap();
    for s in code_map(&file).unwrap().sites() {println!("site {:#x} {}",s.0,s.1)}
}

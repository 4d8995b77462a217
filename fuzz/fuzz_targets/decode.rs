//! Any call with any memory becomes a line: nothing panics, nothing takes for ever, and the
//! line is one.
#![no_main]

use crossgate_decode::{Call, Exit, Options, ended, signal};
use crossgate_wire::record::Record;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let options = Options::default();
    let mut rest = bytes;
    let mut call = None;
    while let Some((record, len)) = Record::parse(rest) {
        let mut line = String::new();
        match record {
            Record::Enter { nr, args, blobs, .. } => {
                let begun = Call { nr, args, blobs };
                options.enter(&mut line, &begun);
                options.no_exit(&mut line, 0, &begun);
                call = Some(begun);
            }
            Record::Exit { result, blobs, .. } => {
                if let Some(call) = call.take() {
                    options.enter(&mut line, &call);
                    let column = line.chars().count();
                    options.exit(&mut line, column, &call, &Exit { result, blobs });
                }
            }
            Record::Signal { info, .. } => signal(&mut line, info),
            Record::TaskStart { parent, .. } => ended(&mut line, parent),
            Record::Cancel { .. } | Record::Inject { .. } | Record::Log { .. } | Record::Pad => {}
        }
        assert!(line.is_ascii() && !line.contains('\n'), "{line:?}");
        let Some(next) = rest.get(len..) else { break };
        rest = next;
    }
});

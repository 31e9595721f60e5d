//! `celeborn-defaults.conf`: the file, and its entries put into a master's and a worker's options.
#![no_main]

use libfuzzer_sys::fuzz_target;
use yeoul_settings::properties;
use yeoul_shuffle::settings::apply;
use yeoul_shuffle::{master, worker};

/// For short keys.
const SLACK: u64 = 64;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    yeoul_fuzz::bounded_by(SLACK, text.len(), || properties::entries(text).for_each(drop));
    let entries: Vec<_> = properties::entries(text).collect();
    // What a variable holds may refer to others, and lead back.
    let environment = |name: &str| (name != "NONE").then(|| format!("{name}${{env:{name}1}}"));
    let _ = apply::to_master(&entries, &environment, &mut master::Options::default());
    let _ = apply::to_worker(&entries, &environment, &mut worker::Options::default());
});

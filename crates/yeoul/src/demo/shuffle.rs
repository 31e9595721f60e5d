use yeoul_base::ByteSize;
use yeoul_bench::shuffle::act::{Script, run as shuffle_with_a_kill};

use super::{Failure, Row, Stage};

pub(super) fn run(stage: &Stage) -> Result<Vec<Row>, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let script = Script::default();
    let step = |line: &str| eprintln!("  {line}");
    let dir = stage.dir.join("shuffle");
    let outcome = runtime
        .block_on(stage.unless_stopped(async { Ok(shuffle_with_a_kill(&dir, &script, step).await?) }))?;
    let size = ByteSize::from_bytes;
    let killed = format!(
        "{} of {} were on the dropped worker",
        size(outcome.bytes_killed),
        size(outcome.bytes_before)
    );
    Ok(vec![
        Row {
            what: format!(
                "write {} maps x {} partitions, drop 1 of {} workers",
                script.maps, script.partitions, script.workers
            ),
            result: format!("{} written twice", size(outcome.bytes)),
            time: outcome.write,
            bounds: killed,
        },
        Row {
            what: "read every partition from the workers that are left".to_owned(),
            result: format!("{} batches, each once", outcome.batches),
            time: outcome.read,
            bounds: String::new(),
        },
    ])
}

use yeoul_base::ByteSize;
use yeoul_bench::dfs::act::{Script, run as read_after_a_kill};

use super::{Failure, Row, Stage};

pub(super) fn run(stage: &Stage) -> Result<Vec<Row>, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let script = Script::default();
    let step = |line: &str| eprintln!("  {line}");
    let dir = stage.dir.join("dfs");
    let outcome = runtime
        .block_on(stage.unless_stopped(async { Ok(read_after_a_kill(&dir, &script, step).await?) }))?;
    let size = ByteSize::from_bytes(outcome.bytes);
    let Script { datanodes, killed, copies, .. } = script;
    Ok(vec![
        Row {
            what: format!("write a file to {datanodes} DataNodes, {copies} copies of each block"),
            result: size.to_string(),
            time: outcome.write,
            bounds: format!("{} replicas", outcome.replicas),
        },
        Row {
            what: format!("read it after {killed} of them were killed"),
            result: size.to_string(),
            time: outcome.read,
            bounds: format!(
                "{} of {} replicas were on the killed ones",
                outcome.replicas_killed, outcome.replicas
            ),
        },
    ])
}

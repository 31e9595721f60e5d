//! A master or a worker without the rest of `yeoul`, for judges and measurements: `shuffle master|worker --key value …`.

use std::time::Duration;

use yeoul_shuffle::{master, worker};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let level = std::env::var("YEOUL_LOG").ok().and_then(|level| level.parse().ok());
    let level = level.unwrap_or(tracing_subscriber::filter::LevelFilter::INFO);
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(level).init();
    let mut arguments = std::env::args().skip(1);
    let verb = arguments.next().ok_or("expected master or worker")?;
    let mut values = std::collections::HashMap::new();
    while let Some(key) = arguments.next() {
        values.insert(key, arguments.next().ok_or("expected a value behind each key")?);
    }
    let text = |key: &str| values.get(key).cloned();
    let port = |key: &str, default: u16| text(key).map_or(Ok(default), |value| value.parse());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().max_blocking_threads(32).build()?;
    runtime.block_on(async {
        if verb == "master" {
            let options = master::Options {
                host: text("--host").unwrap_or_else(|| "127.0.0.1".into()),
                port: port("--port", 9097)?,
                http_port: Some(port("--http-port", 9098)?),
                dir: text("--dir").map(Into::into),
                ..master::Options::default()
            };
            let handle = master::Server::start(options).await?;
            println!("{}", handle.address());
            tokio::signal::ctrl_c().await?;
            return Ok(());
        }
        let list =
            |key: &str| text(key).unwrap_or_default().split(',').map(str::to_owned).collect::<Vec<_>>();
        let options = worker::Options {
            host: text("--host").unwrap_or_else(|| "127.0.0.1".into()),
            rpc_port: port("--rpc-port", 0)?,
            push_port: port("--push-port", 0)?,
            fetch_port: port("--fetch-port", 0)?,
            replicate_port: port("--replicate-port", 0)?,
            masters: list("--master"),
            directories: list("--dir").into_iter().map(Into::into).collect(),
            memory_bytes: text("--memory").map_or(Ok(1 << 30), |value| mebibytes(&value))?,
            stop_timeout: Duration::from_secs(60),
            probe_interval: Duration::from_secs(5),
            ..worker::Options::default()
        };
        let handle = worker::Server::start(options).await?;
        println!("{}", handle.id());
        let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        tokio::select! {
            _ = terminate.recv() => handle.stop(),
            () = handle.ended() => {}
        }
        handle.ended().await;
        Ok(())
    })
}

fn mebibytes(text: &str) -> Result<u64, std::num::ParseIntError> {
    let (number, unit) = text.strip_suffix("GiB").map_or((text, 1 << 20), |number| (number, 1 << 30));
    Ok(number.trim_end_matches("MiB").parse::<u64>()? * unit)
}

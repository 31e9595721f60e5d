use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use super::Output;
use super::display::size;
use crate::client::{ClusterReport, FileSystem, Node, Policy};
use crate::error::Result;

/// Shows what a cluster has and lacks, and its DataNodes.
///
/// # Errors
/// What the NameNode says, or the output takes no more.
pub async fn show_report(files: &FileSystem, output: &mut Output<'_>) -> Result<()> {
    let report = files.report().await?;
    if output.is_json() {
        return output.object(&report);
    }
    let address = files.address();
    summary(address, &report).iter().try_for_each(|line| output.line(line))?;
    if !report.datanodes.is_empty() {
        output.line(&nodes(&report.datanodes).to_string())?;
    }
    Ok(())
}

fn summary(address: &str, report: &ClusterReport) -> Vec<String> {
    let live = report.datanodes.iter().filter(|node| node.live).count();
    let dead = report.datanodes.len() - live;
    let human = |bytes| size(bytes, true);
    let mut lines = vec![
        format!("NameNode            {address}"),
        format!("DataNodes           {live} live, {dead} dead"),
        format!(
            "Space               {} used, {} free of {}",
            human(report.used),
            human(report.remaining),
            human(report.capacity)
        ),
        format!("Missing blocks      {}", report.missing_blocks),
        format!("Too few copies      {}", report.under_replicated_blocks),
        format!("Damaged copies      {}", report.corrupt_blocks),
        format!("To be deleted       {}", report.pending_deletions),
    ];
    if report.safe_mode {
        lines.insert(
            1,
            "Safe mode           on: nothing can be changed until the blocks are reported".to_owned(),
        );
    }
    lines
}

fn table(titles: &[&str], left_columns: usize) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_header(titles);
    for column in table.column_iter_mut().skip(left_columns) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn nodes(nodes: &[Node]) -> Table {
    let mut shown = table(&["DataNode", "state", "rack", "blocks", "used", "free", "transfers"], 3);
    for node in nodes {
        let state = if node.live { "live" } else { "dead" };
        shown.add_row([
            node.address.clone(),
            state.to_owned(),
            node.rack.clone(),
            node.blocks.to_string(),
            size(node.used, true),
            size(node.remaining, true),
            node.transfers.to_string(),
        ]);
    }
    shown
}

/// Shows all erasure coding policies.
///
/// # Errors
/// What the NameNode says, or the output takes no more.
pub async fn show_policies(files: &FileSystem, output: &mut Output<'_>) -> Result<()> {
    let policies = files.policies().await?;
    if output.is_json() {
        return policies.iter().try_for_each(|policy| output.object(policy));
    }
    let mut shown = table(&["policy", "state", "codec", "data", "parity", "cell", "overhead"], 3);
    for policy in &policies {
        shown.add_row(row(policy));
    }
    output.line(&shown.to_string())
}

/// Shows the policy that is in force for a path.
///
/// # Errors
/// The output takes no more.
pub async fn show_policy(files: &FileSystem, path: &str, output: &mut Output<'_>) -> Result<()> {
    #[derive(Serialize)]
    struct InForce<'p> {
        path: &'p str,
        policy: Option<&'p str>,
    }
    let shown = async {
        let path = files.path(path)?;
        let policy = files.policy(path.as_str()).await?;
        if output.is_json() {
            return output.object(&InForce { path: path.as_str(), policy: policy.as_deref() });
        }
        output.line(policy.as_deref().unwrap_or("The files are replicated: no policy is set"))
    }
    .await;
    output.go_on(shown)
}

/// Sets the policy of a directory; none for the NameNode's default.
///
/// # Errors
/// The output takes no more.
pub async fn set_policy(
    files: &FileSystem,
    path: &str,
    policy: Option<String>,
    output: &mut Output<'_>,
) -> Result<()> {
    let set = async {
        let path = files.path(path)?;
        let path = path.as_str();
        files.set_policy(path, policy).await?;
        let policy = files.policy(path).await?.unwrap_or_else(|| "replication".to_owned());
        output.line(&format!("Set {policy} on {path}"))?;
        if !files.list(path).await?.is_empty() {
            output.line(&format!("What is in {path} already stays as it is"))?;
        }
        Ok(())
    }
    .await;
    output.go_on(set)
}

/// Takes away the policy that was set on a directory.
///
/// # Errors
/// The output takes no more.
pub async fn unset_policy(files: &FileSystem, path: &str, output: &mut Output<'_>) -> Result<()> {
    let unset = async {
        let path = files.path(path)?;
        files.unset_policy(path.as_str()).await?;
        output.line(&format!("Unset the policy of {}", path.as_str()))
    }
    .await;
    output.go_on(unset)
}

/// Lets a policy be set, or not any more.
///
/// # Errors
/// The output takes no more.
pub async fn enable_policy(
    files: &FileSystem,
    policy: &str,
    is_enabled: bool,
    output: &mut Output<'_>,
) -> Result<()> {
    let done = async {
        files.enable_policy(policy, is_enabled).await?;
        output.line(&format!("{} {policy}", if is_enabled { "Enabled" } else { "Disabled" }))
    }
    .await;
    output.go_on(done)
}

fn row(policy: &Policy) -> [String; 7] {
    let Policy { name, codec, data_units, parity_units, cell_bytes, state } = policy;
    let overhead = match data_units {
        0 => String::new(),
        data => format!("{:.2}", f64::from(data + parity_units) / f64::from(*data)),
    };
    [
        name.clone(),
        (*state).to_owned(),
        codec.clone(),
        data_units.to_string(),
        parity_units.to_string(),
        size((*cell_bytes).into(), true),
        overhead,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_tells_what_is_missing_before_it_names_the_nodes() {
        let node = |port, live| Node {
            address: format!("10.0.0.1:{port}"),
            host: "h".to_owned(),
            uuid: "u".to_owned(),
            rack: "/default-rack".to_owned(),
            live,
            capacity: 3 << 30,
            used: 1 << 20,
            remaining: 1 << 30,
            blocks: 17,
            transfers: 2,
            last_seen_ms: 0,
        };
        let report = ClusterReport {
            safe_mode: true,
            capacity: 3 << 30,
            used: 1 << 20,
            remaining: 1 << 30,
            under_replicated_blocks: 4,
            corrupt_blocks: 1,
            missing_blocks: 2,
            pending_deletions: 5,
            datanodes: vec![node(1, true), node(2, false)],
        };
        let lines = summary("n1:8020", &report);
        assert_eq!(lines[0], "NameNode            n1:8020");
        assert!(lines[1].starts_with("Safe mode           on"));
        assert_eq!(lines[2], "DataNodes           1 live, 1 dead");
        assert_eq!(lines[3], "Space               1 M used, 1 G free of 3 G");
        assert_eq!(lines[4], "Missing blocks      2");
        let table = nodes(&report.datanodes).to_string();
        assert!(
            table.contains("│ 10.0.0.1:2 ┆ dead  ┆ /default-rack ┆     17 ┆  1 M ┆  1 G ┆         2 │"),
            "{table}"
        );
    }
}

use serde::Serialize;

use super::Output;
use crate::client::{FileSystem, Policy};
use crate::display::{size, table};
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
    output.bytes(report.text(files.address()).as_bytes())
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

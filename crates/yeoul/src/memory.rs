//! What every verb says of a `--memory` that it takes and cannot keep.

use yeoul_base::{ByteSize, machine_memory};

/// What to say where the limit is more than there is: the system then ends the process before it is reached.
pub fn beyond_machine(limit: ByteSize) -> Option<String> {
    let machine = machine_memory()?;
    (limit > machine).then(|| {
        format!("--memory {limit} is more than the {machine} of this machine or container: the promise cannot be kept")
    })
}

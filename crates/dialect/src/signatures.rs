//! Signatures that many functions have.

use std::sync::LazyLock;

use datafusion::logical_expr::{Signature, Volatility};

/// Signature of a function that chooses the types of its arguments itself, in `coerce_types`, and whose answer follows from them alone.
pub(crate) static USER_DEFINED: LazyLock<Signature> =
    LazyLock::new(|| Signature::user_defined(Volatility::Immutable));

use std::fmt;
use std::hash::Hash;

/// Who holds memory: whoever brings bytes, or asks for them. A server says who its parties are: a client's application, an
/// operation of many, itself.
pub trait Party: Clone + Eq + Hash + fmt::Debug + fmt::Display + Send + Sync + 'static {
    /// How far it goes when memory is short.
    fn reserve(&self) -> Reserve;
}

/// How far a party goes when memory is short. A sixteenth of the limit is the reserve.
///
/// Where work of one kind ends only after work of another kind has got memory, the first leaves the reserve and the second
/// overtakes: else two servers that send each other what they received could wait for each other for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reserve {
    /// Leaves the reserve to those that overtake.
    Leaves,
    /// Comes before those that leave the reserve, as long as all that overtake hold no more than it.
    Overtakes,
    /// Takes of it in its turn.
    Takes,
}

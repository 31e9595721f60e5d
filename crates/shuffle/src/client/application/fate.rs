//! What becomes of a location, from what workers answer about its copies: decisions, without I/O.

use std::sync::Arc;

use crate::ids::{AttemptId, FileName};
use crate::wire::executor::Readable;
use crate::wire::packed::Location;

/// A shuffle that has been committed.
#[derive(Debug)]
pub(in crate::client) struct Committed {
    /// By partition.
    pub files: Vec<Vec<Readable>>,
    /// By map id: the attempt whose batches count.
    pub winners: Arc<[AttemptId]>,
}

/// Answer of a worker about a copy that it was to commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    /// Nothing: it was not reached, or not asked yet.
    Unanswered,
    /// That it does not commit.
    Refused,
    /// That the copy has batches, and takes no more.
    Whole,
    /// That the copy has none, and takes none.
    Empty,
    /// That it does not have what it took.
    Lost,
}

/// The outcome for a location, from what the workers of its copies have answered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Readable(Readable),
    Empty,
    /// One of its copies may be good.
    Unanswered,
    Lost,
}

/// One whole copy makes a location readable, one empty copy makes it empty: acknowledged batches are in both.
pub(crate) fn fate(location: &Location, said: impl Fn(FileName) -> Said) -> Fate {
    let all: Vec<_> = location.copies().map(|copy| (said(copy.file()), copy)).collect();
    let has = |wanted| all.iter().any(|(said, _)| *said == wanted);
    if has(Said::Whole) {
        let whole = all.iter().filter(|(said, _)| *said == Said::Whole);
        let copies = whole.map(|(_, copy)| (copy.worker.clone(), copy.file())).collect();
        Fate::Readable(Readable { location: location.id, copies })
    } else if has(Said::Empty) {
        Fate::Empty
    } else if has(Said::Unanswered) {
        Fate::Unanswered
    } else {
        Fate::Lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{LocationId, Mode, WorkerId};

    fn worker(port: u16) -> WorkerId {
        WorkerId { host: "h".into(), rpc_port: port, push_port: 1, fetch_port: 2, replicate_port: 3 }
    }

    fn location(partition: i32, peer: Option<u16>) -> Location {
        Location {
            id: LocationId::new(partition, 0),
            mode: Mode::Primary,
            worker: worker(10),
            peer: peer.map(worker),
        }
    }

    fn name(partition: i32, mode: Mode) -> FileName {
        FileName { location: LocationId::new(partition, 0), mode }
    }

    #[test]
    fn a_location_is_lost_only_when_every_copy_is() {
        use Said::{Empty, Lost, Refused, Unanswered, Whole};
        let (primary, replica) = (name(0, Mode::Primary), name(0, Mode::Replica));
        let both = |of_primary, of_replica| {
            fate(&location(0, Some(20)), |name| if name == primary { of_primary } else { of_replica })
        };
        let readable = |copies: &[(WorkerId, FileName)]| {
            Fate::Readable(Readable { location: primary.location, copies: copies.to_vec() })
        };
        let (at_primary, at_replica) = ((worker(10), primary), (worker(20), replica));
        assert_eq!(both(Whole, Whole), readable(&[at_primary.clone(), at_replica.clone()]));
        for other in [Unanswered, Refused, Empty, Lost] {
            assert_eq!(both(Whole, other), readable(std::slice::from_ref(&at_primary)));
            assert_eq!(both(other, Whole), readable(std::slice::from_ref(&at_replica)));
            if other != Empty {
                assert_eq!((both(other, Empty), both(Empty, other)), (Fate::Empty, Fate::Empty));
            }
        }
        assert_eq!((both(Unanswered, Lost), both(Refused, Unanswered)), (Fate::Unanswered, Fate::Unanswered));
        assert_eq!((both(Refused, Lost), both(Lost, Lost)), (Fate::Lost, Fate::Lost));
        let alone = |said| fate(&location(0, None), |_| said);
        assert_eq!([alone(Empty), alone(Lost), alone(Refused)], [Fate::Empty, Fate::Lost, Fate::Lost]);
        assert_eq!((alone(Unanswered), alone(Whole)), (Fate::Unanswered, readable(&[at_primary])));
    }
}

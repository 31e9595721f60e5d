//! Which volume of a DataNode the next replica goes to.

use super::replicas::VolumeIndex;

/// Chooses among volumes by the bytes that they have free: the wanted one if it has room, else the one with most. A volume
/// that failed has none.
pub fn choose(free: &[Option<u64>], wanted: Option<VolumeIndex>, bytes: u64) -> Option<VolumeIndex> {
    let room = |at: usize| free.get(at).copied().flatten().filter(|free| *free >= bytes);
    if let Some(wanted) = wanted.filter(|wanted| room(wanted.0).is_some()) {
        return Some(wanted);
    }
    let fitting = (0..free.len()).filter_map(|at| Some((room(at)?, at)));
    fitting.max().map(|(_, at)| VolumeIndex(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wanted_volume_or_the_emptiest_that_has_room() {
        let free = [Some(100), None, Some(300), Some(200)];
        let chosen =
            |wanted: Option<usize>, bytes| choose(&free, wanted.map(VolumeIndex), bytes).map(|at| at.0);
        assert_eq!(chosen(Some(0), 100), Some(0));
        assert_eq!(chosen(Some(0), 101), Some(2));
        assert_eq!(chosen(Some(1), 1), Some(2), "it failed");
        assert_eq!(chosen(Some(9), 1), Some(2));
        assert_eq!(chosen(None, 301), None);
    }
}

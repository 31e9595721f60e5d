//! What happens to a world.

use yeoul_simulation::events;

pub type Tally = yeoul_simulation::Tally<Event>;

events! {
    faults {
        /// A message never arrives.
        Lost,
        /// A message arrives twice.
        Doubled,
        /// A message takes so long that nobody waits for it any more.
        TimedOut,
        /// A worker is killed; what was not sealed on its disk is lost.
        WorkerKilled,
        /// A worker is killed, and its disk is lost, too.
        DiskLost,
        /// A disk of a worker dies: what is deleted there stays until the worker starts again.
        DiskDead,
        WorkerRestarted,
        /// A worker does nothing for a while.
        WorkerStalled,
        /// A worker's disks are so slow that it has no room for a while.
        NoRoom,
        /// A worker's memory fills faster than its disks can write.
        MemoryTight,
        /// A connection between a worker and the master ends.
        LinkLost,
        WorkerStops,
        /// A stopping worker waits in vain for its locations to be committed, and keeps them as they are.
        StopTimedOut,
        Decommissioned,
        /// A worker leaves for good although it still holds data.
        LeftInHaste,
        Excluded,
        MasterKilled,
        /// A master is killed while it writes: the last record is torn, and its answer never leaves, or a snapshot is half done.
        MasterTorn,
        /// The master's machine loses power: the last records, already answered, are lost.
        MasterPowerLost,
        /// A master is killed while its journal lacks records, of which nobody has heard.
        MasterLacking,
        /// The disk of the master's journal is full for a while.
        JournalFull,
        /// The disk of the master's journal does not answer for a while.
        JournalHung,
        /// While the disk hangs, so much is queued that a record is refused.
        JournalRefused,
        MasterPaused,
        /// The master runs, but is cut off for a while, alone or with a worker on its own machine.
        MasterCutOff,
        /// The same, for about as long as the data of applications cut off with it is safe, or longer.
        MasterCutOffLong,
        /// The wall clock is set back while the master is down.
        ClockBack,
        /// A driver cannot reach the master for a while.
        ApplicationMute,
        /// An application ends without announcing it.
        ApplicationKilled,
        /// The same, and it comes back under its name and begins with the same numbers of shuffles.
        ApplicationReturned,
        Speculative,
        AttemptFailed,
        HardSplit,
        SoftSplit,
        Revived,
    }
    others {
        /// A message arrives after one that was sent later.
        Reordered,
        /// A message dies with the process or connection that it was sent to.
        CutOff,
        Recommissioned,
        /// The journal is replaced by a snapshot.
        Snapshot,
        /// A master is killed after a snapshot was renamed, and before the files that it replaces are removed.
        SnapshotHalf,
        /// A journal that lacked records is whole again.
        JournalMended,
        /// A reply of the master is an error, because a record that it rests on is not kept.
        Unkept,
        /// A restarted master leaves out records behind others that were not kept.
        JournalLeftOut,
        /// A restarted master is compared with the one that was killed.
        Restored,
        /// The master gives a running shuffle a new location.
        RevivedByMaster,
        /// The same, to a shuffle whose number was used before.
        NumberUsedAgainRevived,
        /// Some locations are committed while others are still written to.
        EarlyCommit,
        /// An application was silent for so long that its data may be deleted.
        Expired,
        /// A worker deletes a shuffle on the master's order.
        Deleted,
        /// A dead disk does not delete the files of a removed shuffle.
        FilesStayed,
        /// As many deletions wait for a worker as may: one more drops the oldest.
        OrdersFull,
        /// A worker refuses a location, or does not answer.
        ReserveRefused,
        CommitRepeated,
        /// A location that was sealed for a restart, and not committed, is committed after it.
        CommittedLater,
        /// A worker never answers a commit.
        CommitUnanswered,
        /// A location is read from its second copy.
        ReadElsewhere,
        Read,
        /// A reader or a commit reports that data is lost.
        LossReported,
        /// A shuffle begins under the number of one that was unregistered.
        NumberUsedAgain,
        /// Shuffles of an application's earlier life are removed, because it registers again.
        EarlierLifeRemoved,
        /// A worker refuses a reservation, because it holds something of an earlier life of the application.
        EarlierLifeRefused,
        /// A shuffle fails before its commit, because no workers are left.
        GaveUp,
    }
}

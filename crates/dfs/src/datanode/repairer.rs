//! Carries out repairs: rebuilds units of block groups, and copies replicas.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tracing::{info, warn};
use yeoul_erasure::{UnitIndex, UnitSet};

use super::copying::Copying;
use super::packets::invalid;
use super::patience::Patience;
use super::peer::{BlockName, PeerAddress, PeerWriter};
use super::rebuilding::{Group, Rebuilding};
use super::repairs::{Cancelled, Repairs, Term};
use super::throttle::Throttle;
use crate::ids::{BlockId, GenerationStamp};
use crate::memory::{Memory, Party};
use crate::policy::geometry_of;
use crate::wire::checksum::Chunking;
use crate::wire::proto::cluster::{Repair, Unit};

/// Bytes of memory for each replica that is read or written: a slice, a packet, the buffer of a connection.
const UNIT_BYTES: u64 = 768 << 10;
/// Time for which a repair waits for memory. The NameNode plans it anew when it is given up.
const MEMORY_WAIT_MAX: Duration = Duration::from_secs(60);

/// The repairs of a DataNode.
#[derive(Debug)]
pub struct Repairer {
    repairs: Mutex<Repairs>,
    changed: Notify,
    /// Bandwidth of all repairs together.
    pub throttle: Throttle,
    memory: Memory,
}

impl Repairer {
    /// At most so many repairs at a time, which together move at most so many bytes per second.
    pub fn new(repairs_max: usize, bytes_per_second: u64, memory: Memory) -> Self {
        let (repairs, throttle) = (Mutex::new(Repairs::new(repairs_max)), Throttle::new(bytes_per_second));
        Self { repairs, changed: Notify::new(), throttle, memory }
    }

    /// What is ordered, and what is to be known of it.
    pub fn repairs(&self) -> MutexGuard<'_, Repairs> {
        self.repairs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what a NameNode of a term says.
    pub fn obey(&self, term: Term, orders: Vec<Repair>, cancelled: &[u64]) {
        let mut repairs = self.repairs();
        for number in cancelled {
            repairs.cancel(term, *number);
        }
        for repair in orders {
            repairs.order(term, repair);
        }
        drop(repairs);
        self.changed.notify_one();
    }

    /// Carries out repairs of blocks of a pool, as long as the DataNode runs.
    pub async fn run(self: Arc<Self>, pool: impl Fn() -> String) {
        loop {
            let next = self.repairs().next();
            let Some((key, repair, cancelled)) = next else {
                self.changed.notified().await;
                continue;
            };
            let (own, pool) = (Arc::clone(&self), pool());
            tokio::task::spawn_blocking(move || {
                // A repair that panics frees its place, too.
                let _place = Place { repairer: &own, key };
                let (number, id) = (repair.number, BlockId(repair.id));
                match own.carry_out(&repair, pool, &cancelled) {
                    Ok(()) => info!(number, %id, policy = repair.policy, "repaired"),
                    Err(error) => warn!(number, %id, %error, "a repair fails"),
                }
            });
        }
    }

    /// Carries out a repair. Nothing counts of it unless it ends well: a target drops what is not ended.
    ///
    /// # Errors
    /// The order makes no sense, too few sources or no target are left, or what was computed does not encode back.
    fn carry_out(&self, repair: &Repair, pool: String, cancelled: &Cancelled) -> io::Result<()> {
        let bytes = UNIT_BYTES * (repair.sources.len() + repair.targets.len()) as u64;
        let room = self.memory.acquire_blocking(&Party::server("repairs"), bytes, MEMORY_WAIT_MAX);
        let _charge = room.ok_or_else(|| io::Error::other("there is no memory for it"))?;
        let (id, stamp) = (BlockId(repair.id), GenerationStamp(repair.stamp));
        let name = BlockName { pool, id, stamp, length: repair.length };
        if repair.policy.is_empty() {
            return self.copy(repair, &name, cancelled);
        }
        let geometry = geometry_of(&repair.policy);
        let geometry = geometry.ok_or_else(|| invalid(format!("policy {} is unknown", repair.policy)))?;
        self.rebuild(repair, Group { geometry, name }, cancelled)
    }

    fn rebuild(&self, repair: &Repair, group: Group, cancelled: &Cancelled) -> io::Result<()> {
        let sources = repair.sources.iter().map(|unit| Ok((index_of(unit)?, address_of(unit))));
        let sources = sources.collect::<io::Result<Vec<_>>>()?;
        let targets = repair.targets.iter().map(index_of).collect::<io::Result<BTreeSet<_>>>()?;
        if targets.len() != repair.targets.len() {
            return Err(invalid("two targets for one unit"));
        }
        let wanted: UnitSet = targets.into_iter().collect();
        let mut pass = Rebuilding::begin(group.clone(), sources, wanted, Patience::default())?;
        let mut targets = Targets::new(Patience::default());
        for target in &repair.targets {
            let unit = index_of(target)?;
            targets.add(unit, target, &group.unit(unit), pass.chunking());
        }
        loop {
            self.wait_for(pass.next_bytes(), cancelled)?;
            let Some(slices) = pass.next_slice()? else { break };
            for (unit, bytes) in slices {
                targets.write(unit, bytes);
            }
            targets.check()?;
        }
        targets.finish()
    }

    fn copy(&self, repair: &Repair, name: &BlockName, cancelled: &Cancelled) -> io::Result<()> {
        let sources = repair.sources.iter().map(address_of).collect();
        let mut copied = Copying::begin(name.clone(), sources, Patience::default())?;
        let mut targets = Targets::new(Patience::default());
        for target in &repair.targets {
            targets.add(UnitIndex(0), target, name, copied.chunking());
        }
        loop {
            self.wait_for(copied.next_bytes(), cancelled)?;
            let Some(bytes) = copied.next_slice()? else { break };
            targets.write(UnitIndex(0), bytes);
            targets.check()?;
        }
        targets.finish()
    }

    /// Waits until so many bytes may move.
    fn wait_for(&self, bytes: u64, cancelled: &Cancelled) -> io::Result<()> {
        self.throttle.wait(bytes, || {
            let message = "it is no longer wanted";
            let is_set = cancelled.is_set();
            if is_set { Err(io::Error::new(io::ErrorKind::Interrupted, message)) } else { Ok(()) }
        })
    }
}

struct Place<'a> {
    repairer: &'a Repairer,
    key: super::repairs::RepairKey,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.repairer.repairs().ended(self.key);
        self.repairer.changed.notify_one();
    }
}

/// The replicas that a repair makes. One that fails costs the others nothing but the time for which it may be silent.
struct Targets {
    patience: Patience,
    open: Vec<(UnitIndex, PeerAddress, PeerWriter)>,
    last_error: Option<io::Error>,
}

impl Targets {
    fn new(patience: Patience) -> Self {
        Self { patience, open: Vec::new(), last_error: None }
    }

    fn add(&mut self, unit: UnitIndex, target: &Unit, block: &BlockName, chunking: Chunking) {
        let address = address_of(target);
        let silent_max = self.patience.target;
        match PeerWriter::create(&address, &target.storage, target.kind, block, chunking, silent_max) {
            Ok(writer) => self.open.push((unit, address, writer)),
            Err(error) => self.failed(unit, &address, error),
        }
    }

    fn write(&mut self, of: UnitIndex, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.each(|unit, writer| if unit == of { writer.write(bytes) } else { Ok(()) });
        }
    }

    /// Goes on with those for which this succeeds.
    fn each(&mut self, step: impl Fn(UnitIndex, &mut PeerWriter) -> io::Result<()>) {
        for (unit, address, mut writer) in std::mem::take(&mut self.open) {
            match step(unit, &mut writer) {
                Ok(()) => self.open.push((unit, address, writer)),
                Err(error) => self.failed(unit, &address, error),
            }
        }
    }

    /// Whether the work is for anybody still.
    fn check(&mut self) -> io::Result<()> {
        if !self.open.is_empty() {
            return Ok(());
        }
        Err(self.last_error.take().unwrap_or_else(|| invalid("a repair without a target")))
    }

    fn finish(mut self) -> io::Result<()> {
        self.check()?;
        // All hear of the end before one of them is waited for.
        self.each(|_, writer| writer.end());
        self.each(|_, writer| writer.finish());
        self.last_error.map_or(Ok(()), Err)
    }

    fn failed(&mut self, unit: UnitIndex, target: &PeerAddress, error: io::Error) {
        warn!(unit = unit.0, target = target.0, %error, "a target of a repair fails");
        self.last_error = Some(error);
    }
}

fn index_of(unit: &Unit) -> io::Result<UnitIndex> {
    let index = u8::try_from(unit.index).ok().filter(|index| usize::from(*index) < yeoul_erasure::UNITS_MAX);
    index.map(UnitIndex).ok_or_else(|| invalid(format!("a unit {} in a repair", unit.index)))
}

fn address_of(unit: &Unit) -> PeerAddress {
    PeerAddress::new(&unit.ip, unit.transfer_port)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::Instant;

    use super::super::packets::write_message;
    use super::super::test_peer::{SlowPeer, TestPeer, content, name};
    use super::*;
    use crate::wire::proto::transfer::Response;

    /// Bytes of a packet that needs no memory of its own.
    const PACKET: usize = 32 << 10;
    const PATIENCE: Patience = Patience {
        with_spare: Duration::from_secs(600),
        alone: Duration::from_secs(600),
        target: Duration::from_millis(300),
    };
    /// Time within which a target that hangs is dropped.
    const DROPPED_MAX: Duration = Duration::from_secs(10);

    fn unit_at(address: &PeerAddress, index: u32) -> Unit {
        let (ip, port) = address.0.rsplit_once(':').unwrap();
        let transfer_port = port.parse().unwrap();
        Unit { index, ip: ip.to_owned(), transfer_port, kind: 1, ..Unit::default() }
    }

    /// A DataNode that takes a request, and nothing of what follows.
    fn stuck_peer() -> PeerAddress {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = PeerAddress(listener.local_addr().unwrap().to_string());
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let ready = Response { first_bad_link: Some(String::new()), ..Response::default() };
            write_message(&mut stream, &ready).unwrap();
            std::thread::sleep(Duration::from_secs(600));
        });
        address
    }

    fn is_late(error: &io::Error) -> bool {
        matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
    }

    #[test]
    fn a_target_that_hangs_is_dropped_and_the_others_are_written() {
        let data = content(4, 3 * PACKET + 700);
        // Before its response, and in the middle of its acknowledgements.
        for after in [0, 8] {
            let [behind, good] = [1, 2].map(|id| TestPeer::with(id, b"another block"));
            let hanging = SlowPeer::before(&behind, after, Duration::from_secs(600));
            let began = Instant::now();
            let mut targets = Targets::new(PATIENCE);
            for (index, address) in [(0, &hanging.address), (1, &good.address)] {
                let (unit, block) = (UnitIndex(index), name(7 + i64::from(index), data.len()));
                targets.add(unit, &unit_at(address, index.into()), &block, Chunking::default());
            }
            assert_eq!(targets.open.len(), if after == 0 { 1 } else { 2 });
            for bytes in data.chunks(PACKET) {
                targets.write(UnitIndex(0), bytes);
                targets.write(UnitIndex(1), bytes);
            }
            let error = targets.finish().unwrap_err();
            assert!(is_late(&error) && hanging.was_asked() && began.elapsed() < DROPPED_MAX, "{error}");
            assert!(good.whole(8) == data, "the other one has it whole");
        }
    }

    #[test]
    fn a_target_that_takes_nothing_is_dropped() {
        let bytes = content(5, 1 << 20);
        // More than the system keeps for it: the target is waited for when it is written to.
        let count = 64;
        let (stuck, block) = (stuck_peer(), name(7, count * bytes.len()));
        let began = Instant::now();
        let mut targets = Targets::new(PATIENCE);
        targets.add(UnitIndex(0), &unit_at(&stuck, 0), &block, Chunking::default());
        for _ in 0..count {
            targets.write(UnitIndex(0), &bytes);
        }
        let error = targets.check().unwrap_err();
        assert!(is_late(&error) && began.elapsed() < DROPPED_MAX, "{error}");
    }
}

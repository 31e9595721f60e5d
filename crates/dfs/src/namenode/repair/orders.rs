use std::collections::{BTreeMap, HashMap};

use crate::ids::{BlockId, BlockIndex, DatanodeHandle, GenerationStamp, StorageHandle};

/// Repairs that one DataNode works at or is about to, however small they are: it hears of new ones once a second.
const ORDERS_PER_WORKER_MAX: usize = 64;
/// Bytes of the repairs that one DataNode works at, beside a few large ones: less than it moves until it hears of new ones.
const BYTES_PER_WORKER_MAX: u64 = 64 << 20;
/// Repairs that write to one DataNode, however large they are.
const LARGE_WRITES_PER_NODE_MAX: usize = 4;
/// Repairs that read from one DataNode, however large they are.
const LARGE_READS_PER_NODE_MAX: usize = 16;
/// Repairs that write to one DataNode, and those that read from it, however small they are.
const USES_PER_NODE_MAX: usize = 256;
/// Bytes of the repairs that write to one DataNode, and of those that read from it, beside a few large ones.
const BYTES_PER_NODE_MAX: u64 = 128 << 20;
/// Milliseconds for a repair in all. A unit of 128 MiB takes a minute at 2 MiB/s: one that takes longer is given to another.
const ORDER_MS_MAX: u64 = 600_000;
/// Milliseconds for which a DataNode that did not get what a repair was to give it is a target for want of others only.
const DOUBT_MS: u64 = 60_000;

/// Where a unit or a replica is, or is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The unit; 0 for a replica.
    pub index: BlockIndex,
    /// The DataNode.
    pub datanode: DatanodeHandle,
    /// The storage of it.
    pub storage: StorageHandle,
}

/// A repair that a DataNode is told to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Its number: the term in the upper half, so that none is used twice.
    pub number: u64,
    /// The block or the group.
    pub block: BlockId,
    /// The stamp that what is made has.
    pub stamp: GenerationStamp,
    /// Bytes of the block, or of the data of the group.
    pub length: u64,
    /// Who does it.
    pub worker: DatanodeHandle,
    /// Where it reads.
    pub sources: Vec<Place>,
    /// Where it writes.
    pub targets: Vec<Place>,
    /// When it was planned.
    pub made_ms: u64,
    /// The worker has been told.
    pub is_given: bool,
    /// It is no longer wanted, and the worker is told so.
    pub is_cancelled: bool,
}

/// Repairs that use a DataNode in one way, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Use {
    count: usize,
    bytes: u64,
}

impl Use {
    /// True if there may be one more of so many bytes: a few of any size, and more as long as they are small.
    fn has_room(self, bytes: u64, large_max: usize, count_max: usize, bytes_max: u64) -> bool {
        self.count < large_max || (self.count < count_max && self.bytes.saturating_add(bytes) <= bytes_max)
    }

    fn add(&mut self, bytes: u64) {
        (self.count, self.bytes) = (self.count + 1, self.bytes + bytes);
    }

    fn remove(&mut self, bytes: u64) {
        self.count = self.count.checked_sub(1).expect("what goes was added");
        self.bytes = self.bytes.checked_sub(bytes).expect("what goes was added");
    }
}

/// What repairs do with one DataNode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Load {
    works: Use,
    writes: Use,
    reads: Use,
}

/// All repairs that are under way, one for a block at most.
#[derive(Debug, Default)]
pub struct Orders {
    by_number: BTreeMap<u64, Order>,
    by_block: HashMap<BlockId, u64>,
    loads: HashMap<DatanodeHandle, Load>,
    /// DataNodes in doubt, and until when.
    doubts: HashMap<DatanodeHandle, u64>,
    last: u32,
}

impl Orders {
    /// True if a block has an order.
    pub fn has(&self, block: BlockId) -> bool {
        self.by_block.contains_key(&block)
    }

    /// The order of a block, to be changed.
    pub fn of_mut(&mut self, block: BlockId) -> Option<&mut Order> {
        self.by_number.get_mut(self.by_block.get(&block)?)
    }

    /// All of them, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Order> {
        self.by_number.values()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.by_number.len()
    }

    /// True if a DataNode may be told to do one more, of so many bytes; `large_max` are as many as there may be of any size.
    pub fn may_work(&self, node: DatanodeHandle, bytes: u64, large_max: usize) -> bool {
        self.load(node).works.has_room(bytes, large_max, ORDERS_PER_WORKER_MAX, BYTES_PER_WORKER_MAX)
    }

    /// True if one more, of so many bytes, may write to a DataNode.
    pub fn may_write(&self, node: DatanodeHandle, bytes: u64) -> bool {
        let writes = self.load(node).writes;
        writes.has_room(bytes, LARGE_WRITES_PER_NODE_MAX, USES_PER_NODE_MAX, BYTES_PER_NODE_MAX)
    }

    /// True if one more, of so many bytes, may read from a DataNode.
    pub fn may_read(&self, node: DatanodeHandle, bytes: u64) -> bool {
        let reads = self.load(node).reads;
        reads.has_room(bytes, LARGE_READS_PER_NODE_MAX, USES_PER_NODE_MAX, BYTES_PER_NODE_MAX)
    }

    fn load(&self, node: DatanodeHandle) -> Load {
        self.loads.get(&node).copied().unwrap_or_default()
    }

    /// Counts an order in what it does with DataNodes, or out of it.
    fn count_uses(&mut self, order: &Order, change: impl Fn(&mut Use, u64)) {
        change(&mut self.loads.entry(order.worker).or_default().works, order.length);
        for target in &order.targets {
            change(&mut self.loads.entry(target.datanode).or_default().writes, order.length);
        }
        for source in &order.sources {
            change(&mut self.loads.entry(source.datanode).or_default().reads, order.length);
        }
    }

    /// Adds an order, under a number that no other has.
    ///
    /// # Panics
    /// If its block has one.
    pub fn add(&mut self, term: u64, order: Order) {
        self.last += 1;
        let number = term << 32 | u64::from(self.last);
        let before = self.by_block.insert(order.block, number);
        assert!(before.is_none(), "a block has one order at a time");
        self.count_uses(&order, Use::add);
        self.by_number.insert(number, Order { number, ..order });
    }

    /// Forgets an order.
    pub fn remove(&mut self, number: u64) -> Option<Order> {
        let order = self.by_number.remove(&number)?;
        self.by_block.remove(&order.block);
        self.count_uses(&order, Use::remove);
        Some(order)
    }

    /// Doubts the targets of an order that is over to which `has_come` nothing. Which side failed is not known; what a DataNode
    /// that hangs is to take goes to another one with the next attempt.
    pub fn doubt(&mut self, order: &Order, now_ms: u64, has_come: impl Fn(&Place) -> bool) {
        if order.is_cancelled || !order.is_given {
            return;
        }
        self.doubts.retain(|_, until_ms| *until_ms > now_ms);
        for target in order.targets.iter().filter(|target| !has_come(target)) {
            self.doubts.insert(target.datanode, now_ms.saturating_add(DOUBT_MS));
        }
    }

    /// True if a DataNode is to be a target for want of others only.
    pub fn is_in_doubt(&self, node: DatanodeHandle, now_ms: u64) -> bool {
        self.doubts.get(&node).is_some_and(|until_ms| *until_ms > now_ms)
    }

    /// Takes what a worker says it works at: the orders that are over, as it was told of them and does not name them, and the
    /// numbers that it is to drop.
    pub fn hear(&mut self, worker: DatanodeHandle, numbers: &[u64]) -> (Vec<Order>, Vec<u64>) {
        let is_over =
            |order: &&Order| order.worker == worker && order.is_given && !numbers.contains(&order.number);
        let over: Vec<u64> = self.by_number.values().filter(is_over).map(|order| order.number).collect();
        let over = over.into_iter().filter_map(|number| self.remove(number)).collect();
        let is_unwanted = |number: &&u64| self.by_number.get(number).is_none_or(|order| order.is_cancelled);
        (over, numbers.iter().filter(is_unwanted).copied().collect())
    }

    /// The orders that a worker has yet to be told of.
    pub fn to_give(&self, worker: DatanodeHandle) -> Vec<Order> {
        let of_it = |order: &&Order| order.worker == worker && !order.is_given;
        self.by_number.values().filter(of_it).cloned().collect()
    }

    /// Notes that a worker has been told.
    pub fn given(&mut self, number: u64) {
        self.by_number.get_mut(&number).expect("it is there").is_given = true;
    }

    /// Forgets the orders that nobody does: their worker is not there, or takes too long. A worker that comes back with one is
    /// told to drop it.
    pub fn give_up(&mut self, now_ms: u64, is_live: impl Fn(DatanodeHandle) -> bool) -> Vec<Order> {
        let is_lost =
            |order: &&Order| !is_live(order.worker) || now_ms.saturating_sub(order.made_ms) > ORDER_MS_MAX;
        let lost: Vec<u64> = self.by_number.values().filter(is_lost).map(|order| order.number).collect();
        lost.into_iter().filter_map(|number| self.remove(number)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(block: i64, worker: u32) -> Order {
        Order {
            number: 0,
            block: BlockId(block),
            stamp: GenerationStamp(1001),
            length: 10,
            worker: DatanodeHandle(worker),
            sources: Vec::new(),
            targets: Vec::new(),
            made_ms: 1_000,
            is_given: false,
            is_cancelled: false,
        }
    }

    #[test]
    fn an_order_is_over_when_its_worker_was_told_and_does_not_name_it() {
        let mut orders = Orders::default();
        orders.add(3, order(1, 7));
        orders.add(3, order(2, 7));
        let numbers: Vec<u64> = orders.to_give(DatanodeHandle(7)).iter().map(|order| order.number).collect();
        assert_eq!(numbers, [3 << 32 | 1, 3 << 32 | 2]);
        assert_eq!(orders.hear(DatanodeHandle(7), &[]), (Vec::new(), Vec::new()), "it has not been told");
        numbers.iter().for_each(|number| orders.given(*number));
        // A number of an earlier term is to be dropped.
        let (over, dropped) = orders.hear(DatanodeHandle(7), &[numbers[1], 2 << 32 | 1]);
        assert_eq!((over.len(), over[0].block, dropped), (1, BlockId(1), vec![2 << 32 | 1]));
        assert_eq!(orders.hear(DatanodeHandle(8), &[]).0, [], "they are not its own");
        assert_eq!(orders.give_up(601_000, |_| true), []);
        assert_eq!(orders.give_up(601_001, |_| true).len(), 1);
        assert_eq!(orders.hear(DatanodeHandle(7), &numbers[1..]).1, numbers[1..], "it is told to drop it");
    }

    #[test]
    fn small_repairs_are_bounded_by_their_bytes_and_large_ones_by_their_number() {
        let (mut orders, node) = (Orders::default(), DatanodeHandle(7));
        let place = |number| Place {
            index: BlockIndex(0),
            datanode: DatanodeHandle(number),
            storage: StorageHandle(number),
        };
        let sized = |block, length| Order { length, targets: vec![place(8)], ..order(block, 7) };
        for block in 0..64 {
            assert!(orders.may_work(node, 1000, 2), "{block}");
            orders.add(1, sized(block, 1000));
        }
        assert!(!orders.may_work(node, 1000, 2) && orders.may_work(DatanodeHandle(8), 1000, 2));
        assert!(orders.may_write(DatanodeHandle(8), 1000) && !orders.may_write(DatanodeHandle(8), 200 << 20));
        let numbers: Vec<u64> = orders.iter().map(|order| order.number).collect();
        for number in numbers {
            orders.remove(number);
        }
        assert!(orders.loads.values().all(|load| *load == Load::default()), "all is counted out again");
        for block in 0..2 {
            assert!(orders.may_work(node, 128 << 20, 2), "the first ones may be of any size");
            orders.add(1, sized(block, 128 << 20));
        }
        assert!(!orders.may_work(node, 1, 2) && orders.may_work(node, 128 << 20, 4), "the bytes are used up");
    }

    #[test]
    fn a_datanode_is_read_and_written_by_some_large_repairs_and_by_more_small_ones() {
        let place = |number| Place {
            index: BlockIndex(0),
            datanode: DatanodeHandle(number),
            storage: StorageHandle(number),
        };
        let (read, written) = (DatanodeHandle(8), DatanodeHandle(9));
        let sized = |block: i64, length| Order {
            length,
            sources: vec![place(8)],
            targets: vec![place(9)],
            ..order(block, u32::try_from(block).unwrap() + 100)
        };
        let mut small = Orders::default();
        for block in 0..256 {
            assert!(small.may_read(read, 1000) && small.may_write(written, 1000), "{block}");
            small.add(1, sized(block, 1000));
        }
        assert!(!small.may_read(read, 1000) && !small.may_write(written, 1000), "256 are enough");
        let mut large = Orders::default();
        for block in 0..16 {
            assert!(large.may_read(read, 1 << 40));
            assert_eq!(large.may_write(written, 1 << 40), block < 4, "{block}");
            large.add(1, sized(block, 1 << 40));
        }
        assert!(!large.may_read(read, 1), "the bytes are used up");
        let mut some = Orders::default();
        for block in 0..16 {
            some.add(1, sized(block, 8 << 20));
        }
        // That is 128 MiB.
        assert!(!some.may_read(read, 1) && !some.may_write(written, 1));
        some.remove(1 << 32 | 1);
        assert!(some.may_read(read, 1 << 40), "fifteen, of any size");
        assert!(some.may_write(written, 8 << 20) && !some.may_write(written, (8 << 20) + 1));
    }

    #[test]
    fn who_did_not_get_what_a_repair_was_to_give_is_in_doubt_for_a_while() {
        let place = |number| Place {
            index: BlockIndex(0),
            datanode: DatanodeHandle(number),
            storage: StorageHandle(number),
        };
        let mut orders = Orders::default();
        let over = Order { targets: vec![place(1), place(2)], is_given: true, ..order(1, 7) };
        let has_come = |place: &Place| place.datanode == DatanodeHandle(2);
        orders.doubt(&Order { is_cancelled: true, ..over.clone() }, 1_000, has_come);
        orders.doubt(&Order { is_given: false, ..over.clone() }, 1_000, has_come);
        let doubts =
            |orders: &Orders, now_ms| [1, 2, 7].map(|node| orders.is_in_doubt(DatanodeHandle(node), now_ms));
        assert_eq!(doubts(&orders, 1_000), [false; 3], "nobody was to do it");
        orders.doubt(&over, 1_000, has_come);
        assert_eq!(doubts(&orders, 60_999), [true, false, false]);
        assert_eq!(doubts(&orders, 61_000), [false; 3]);
        orders.doubt(&Order { targets: vec![place(3)], ..over }, 61_000, has_come);
        assert_eq!(orders.doubts.len(), 1, "what is over is forgotten");
    }
}

//! Contract of a provider of state. Goal: a table is a map, whatever happens to it, and its versions restore it. Method: random
//! writes, reads, evictions, versions and restarts beside a `BTreeMap`.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type};
use yeoul_simulation::Random;

use super::*;

type Model = BTreeMap<(i64, String), (Option<i64>, Option<String>)>;

fn layout() -> Arc<Layout> {
    let field = |name: &str, data_type| Arc::new(Field::new(name, data_type, true));
    let keys = vec![field("bucket", DataType::Int64), field("name", DataType::Utf8)];
    let list = DataType::List(Arc::new(Field::new_list_field(DataType::Int64, true)));
    let values = vec![field("number", DataType::Int64), field("text", DataType::Utf8), field("list", list)];
    Arc::new(Layout::new("contract", keys, values).unwrap())
}

fn keys(layout: &Layout, of: &[(i64, String)]) -> Keys {
    let columns: [ArrayRef; 2] = [
        Arc::new(Int64Array::from_iter_values(of.iter().map(|(bucket, _)| *bucket))),
        Arc::new(StringArray::from_iter_values(of.iter().map(|(_, name)| name))),
    ];
    let rows = layout.encode_keys(&columns).unwrap();
    let mut keys = Keys::default();
    for (row, (bucket, _)) in rows.iter().zip(of) {
        keys.insert(Bucket(*bucket), KeyHash::of(row.data()), row.data());
    }
    keys
}

/// Lists that go with numbers: null, empty, or with nulls in them.
fn lists(numbers: &[Option<i64>]) -> ListArray {
    let list =
        |number: &Option<i64>| number.map(|n| vec![Some(n), None, Some(n / 2)].split_off(n as usize % 4));
    ListArray::from_iter_primitive::<Int64Type, _, _>(numbers.iter().map(list))
}

fn model_of<'a>(rows: impl IntoIterator<Item = &'a StateRows>) -> Model {
    let mut model = Model::new();
    for part in rows {
        let (buckets, names) = (part.keys[0].as_primitive::<Int64Type>(), part.keys[1].as_string::<i32>());
        let (numbers, texts) =
            (part.values[0].as_primitive::<Int64Type>(), part.values[1].as_string::<i32>());
        assert_eq!(part.values[2].as_list::<i32>(), &lists(&numbers.iter().collect::<Vec<_>>()));
        for row in 0..part.len() {
            assert_eq!(part.buckets[row], Bucket(buckets.value(row)));
            let number = numbers.is_valid(row).then(|| numbers.value(row));
            let text = texts.is_valid(row).then(|| texts.value(row).to_owned());
            let before = model.insert((buckets.value(row), names.value(row).to_owned()), (number, text));
            assert!(before.is_none(), "a key is there twice");
        }
    }
    model
}

/// A version as a checkpoint would bring it back.
fn stored(version: Version) -> StoredVersion {
    let Version { kind, evicted_until, rows } = version;
    StoredVersion { kind, evicted_until, rows: rows.map(Result::unwrap).collect() }
}

/// Checks a provider; `new` makes an empty table.
pub(super) fn check(new: impl Fn(Arc<Layout>) -> Box<dyn StateTable>) {
    let (mut removed, mut removing_deltas) = (0, 0);
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let layout = layout();
        let (mut table, mut model) = (new(Arc::clone(&layout)), Model::new());
        // Everything since the last snapshot, with what the table was then.
        let mut versions: Vec<StoredVersion> = Vec::new();
        let (mut saved, mut evicted, mut kinds) = (Model::new(), i64::MIN, [0, 0]);
        for step in 0..200 {
            match random.below(11) {
                0..=4 => {
                    let mut wanted = BTreeMap::new();
                    for _ in 0..=random.below(30) {
                        let bucket = (step / 20) as i64 + random.below(5) as i64;
                        if bucket > evicted {
                            wanted.insert((bucket, format!("name {}", random.below(40))), ());
                        }
                    }
                    let of: Vec<_> = wanted.into_keys().collect();
                    let value = |random: &mut Random| (!random.once_in(8)).then(|| random.next() as i64);
                    let numbers: Vec<_> = of.iter().map(|_| value(&mut random)).collect();
                    let texts: Vec<_> =
                        of.iter().map(|_| value(&mut random).map(|n| n.to_string())).collect();
                    let values: [ArrayRef; 3] = [
                        Arc::new(Int64Array::from(numbers.clone())),
                        Arc::new(StringArray::from(texts.clone())),
                        Arc::new(lists(&numbers)),
                    ];
                    table.write(&keys(&layout, &of), &values).unwrap();
                    model.extend(of.into_iter().zip(numbers.into_iter().zip(texts)));
                }
                5..=6 => {
                    let of: Vec<_> =
                        (0..40).map(|n| ((step / 20) as i64 + n % 5, format!("name {n}"))).collect();
                    let found = table.read(&keys(&layout, &of)).unwrap();
                    let expected: Vec<_> =
                        of.iter().enumerate().filter(|(_, key)| model.contains_key(*key)).collect();
                    assert_eq!(found.places, expected.iter().map(|(at, _)| *at).collect::<Vec<_>>());
                    let numbers = found.values[0].as_primitive::<Int64Type>();
                    for (row, (_, key)) in expected.into_iter().enumerate() {
                        assert_eq!(
                            numbers.is_valid(row).then(|| numbers.value(row)),
                            model[key].0,
                            "{key:?}"
                        );
                    }
                }
                7 => {
                    let until = (step / 20) as i64 - 1 + random.below(2) as i64;
                    evicted = evicted.max(until);
                    let gone = table.evict(Bucket(until)).unwrap();
                    let kept = model.split_off(&(until + 1, String::new()));
                    assert_eq!(
                        model_of(&gone),
                        std::mem::replace(&mut model, kept),
                        "seed {seed}, step {step}"
                    );
                }
                8 => {
                    // Some that are there, and some that are not.
                    let known: Vec<_> = model.keys().filter(|_| random.once_in(3)).cloned().collect();
                    removed += known.len();
                    let unknown = (evicted + 3, format!("name {}", 40 + random.below(9)));
                    let of: Vec<_> = known.into_iter().chain([unknown]).collect();
                    table.remove(&keys(&layout, &of)).unwrap();
                    of.iter().for_each(|key| drop(model.remove(key)));
                }
                9 => {
                    let is_wanted = random.once_in(6);
                    if is_wanted {
                        table.want_snapshot();
                    }
                    let version = table.version().unwrap().map(stored);
                    let is_snapshot = version.as_ref().is_some_and(|v| v.kind == VersionKind::Snapshot);
                    assert!(
                        is_snapshot || !is_wanted,
                        "a snapshot was wanted, whether anything changed or not"
                    );
                    if let Some(version) = version {
                        let has_removed = |rows: &StateRows| rows.buckets.contains(&Bucket::REMOVED);
                        removing_deltas += usize::from(version.rows.iter().any(has_removed));
                        kinds[usize::from(version.kind == VersionKind::Delta)] += 1;
                        if version.kind == VersionKind::Snapshot {
                            versions.clear();
                        }
                        versions.push(version);
                    }
                    saved = model.clone();
                }
                _ => {
                    // The process dies: what the versions say is there again.
                    table = new(Arc::clone(&layout));
                    for version in &versions {
                        let rows = version.rows.clone();
                        let (kind, evicted_until) = (version.kind, version.evicted_until);
                        table.restore(StoredVersion { kind, evicted_until, rows }).unwrap();
                    }
                    model.clone_from(&saved);
                }
            }
            assert_eq!(table.usage().keys, model.len() as u64, "seed {seed}, step {step}");
            assert_eq!(model_of(&table.scan().unwrap()), model, "seed {seed}, step {step}");
        }
        assert!(kinds[0] > 0 && kinds[1] > 0, "there were snapshots and deltas: {kinds:?}");
    }
    assert!(
        removed > 10_000 && removing_deltas > 250,
        "{removed} keys removed, {removing_deltas} deltas with such"
    );
}

/// Bucket, name and number of a key of a table that is looked up by names.
type Row = (i64, String, i64);

/// A table whose keys are looked up by their names, and of which so many times lie together.
fn layout_by_name(span_us: i64) -> Arc<Layout> {
    let field = |name: &str, data_type| Arc::new(Field::new(name, data_type, true));
    let keys = vec![
        field("name", DataType::Utf8),
        field("bucket", DataType::Int64),
        field("number", DataType::Int64),
    ];
    let layout = Layout::new("contract", keys, vec![field("text", DataType::Utf8)]).unwrap();
    Arc::new(layout.with_prefix(1).with_span_us(span_us))
}

fn rows_by_name<'a>(rows: impl IntoIterator<Item = &'a StateRows>) -> BTreeMap<Row, Option<String>> {
    let mut model = BTreeMap::new();
    for part in rows {
        let names = part.keys[0].as_string::<i32>();
        let number = |column: usize, row| part.keys[column].as_primitive::<Int64Type>().value(row);
        let texts = part.values[0].as_string::<i32>();
        let prefixes = layout_by_name(1).prefix_rows(&part.keys[..1]).unwrap();
        for row in 0..part.len() {
            assert_eq!(part.buckets[row], Bucket(number(1, row)));
            assert_eq!(
                part.hashes[row],
                KeyHash::of(prefixes.row(row).data()),
                "rows of a name stay together"
            );
            let key = (number(1, row), names.value(row).to_owned(), number(2, row));
            let text = texts.is_valid(row).then(|| texts.value(row).to_owned());
            assert!(model.insert(key, text).is_none(), "a key is there twice");
        }
    }
    model
}

fn keys_by_name(layout: &Layout, of: &[Row]) -> Keys {
    let columns: [ArrayRef; 3] = [
        Arc::new(StringArray::from_iter_values(of.iter().map(|(_, name, _)| name))),
        Arc::new(Int64Array::from_iter_values(of.iter().map(|(bucket, ..)| *bucket))),
        Arc::new(Int64Array::from_iter_values(of.iter().map(|(.., number)| *number))),
    ];
    let mut keys = Keys::default();
    for (row, (bucket, ..)) in layout.encode_keys(&columns).unwrap().iter().zip(of) {
        keys.insert(Bucket(*bucket), KeyHash::of(row.data()), row.data());
    }
    keys
}

/// Names that are looked up; the last is never there.
fn names() -> (Vec<String>, Keys) {
    let names: Vec<String> = (0..9).map(|n| format!("name {n}")).collect();
    let columns: [ArrayRef; 1] = [Arc::new(StringArray::from_iter_values(&names))];
    let mut keys = Keys::default();
    for row in layout_by_name(1).prefix_rows(&columns).unwrap().iter() {
        keys.insert(Bucket::FOR_EVER, KeyHash::of(row.data()), row.data());
    }
    (names, keys)
}

/// Checks a provider's tables that are looked up by the begin of their keys, and whose keys have many different times: those go
/// one by one within a span, and all of them to the last.
pub(super) fn check_by_name(new: impl Fn(Arc<Layout>) -> Box<dyn StateTable>) {
    let (mut found_rows, mut gone_rows, mut restored_deltas) = (0, 0, 0);
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let layout = layout_by_name([1, 7, 50][seed as usize % 3]);
        let (mut table, mut model) = (new(Arc::clone(&layout)), BTreeMap::new());
        let (mut versions, mut saved, mut evicted) = (Vec::<StoredVersion>::new(), BTreeMap::new(), i64::MIN);
        for step in 0..200_i64 {
            match random.below(10) {
                0..=3 => {
                    let mut rows: BTreeMap<Row, Option<String>> = BTreeMap::new();
                    for _ in 0..=random.below(20) {
                        let bucket =
                            if random.once_in(30) { i64::MAX } else { step + random.below(40) as i64 };
                        let known = model.keys().nth(random.below(model.len().max(1))).cloned();
                        let new = (bucket, format!("name {}", random.below(8)), random.below(5) as i64);
                        let row: Row = known.filter(|_| random.once_in(3)).unwrap_or(new);
                        if row.0 > evicted {
                            rows.insert(row, (!random.once_in(8)).then(|| random.next().to_string()));
                        }
                    }
                    let of: Vec<Row> = rows.keys().cloned().collect();
                    let texts: ArrayRef = Arc::new(StringArray::from_iter(rows.values()));
                    table.write(&keys_by_name(&layout, &of), &[texts]).unwrap();
                    model.extend(rows);
                }
                4..=5 => {
                    let (names, keys) = names();
                    let found = table.read_prefixed(&keys).unwrap();
                    assert!(found.places.is_sorted());
                    let texts = found.values[0].as_string::<i32>();
                    let mut read = BTreeMap::new();
                    for (at, place) in found.places.iter().enumerate() {
                        let columns = layout.decode_keys([found.key(at)]).unwrap();
                        let number = |column: usize| columns[column].as_primitive::<Int64Type>().value(0);
                        assert_eq!(found.buckets[at], Bucket(number(1)));
                        let text = texts.is_valid(at).then(|| texts.value(at).to_owned());
                        read.insert((number(1), names[*place].clone(), number(2)), text);
                    }
                    assert_eq!(read.len(), found.places.len(), "a key was found twice");
                    assert_eq!(read, model, "seed {seed}, step {step}");
                    found_rows += read.len();
                }
                6 => {
                    let until = step - 5 + random.below(20) as i64;
                    evicted = evicted.max(until);
                    let gone = table.evict(Bucket(until)).unwrap();
                    let kept = model.split_off(&(until + 1, String::new(), i64::MIN));
                    let expected = std::mem::replace(&mut model, kept);
                    gone_rows += expected.len();
                    assert_eq!(rows_by_name(&gone), expected, "seed {seed}, step {step}");
                }
                7..=8 => {
                    if let Some(version) = table.version().unwrap().map(stored) {
                        if version.kind == VersionKind::Snapshot {
                            versions.clear();
                        }
                        versions.push(version);
                    }
                    saved.clone_from(&model);
                }
                _ => {
                    table = new(Arc::clone(&layout));
                    for version in &versions {
                        restored_deltas += usize::from(version.kind == VersionKind::Delta);
                        let rows = version.rows.clone();
                        let (kind, evicted_until) = (version.kind, version.evicted_until);
                        table.restore(StoredVersion { kind, evicted_until, rows }).unwrap();
                    }
                    model.clone_from(&saved);
                }
            }
            assert_eq!(table.usage().keys, model.len() as u64, "seed {seed}, step {step}");
            assert_eq!(rows_by_name(&table.scan().unwrap()), model, "seed {seed}, step {step}");
        }
    }
    assert!(
        found_rows > 10_000 && gone_rows > 5_000 && restored_deltas > 100,
        "{found_rows} found, {gone_rows} gone, {restored_deltas} deltas restored"
    );
}

#[test]
fn memory_keeps_the_contract() {
    check(|layout| Box::new(MemoryTable::new(layout, MemoryShare::default()).unwrap()));
}

#[test]
fn memory_keeps_the_contract_of_keys_that_are_looked_up_by_their_begin() {
    check_by_name(|layout| Box::new(MemoryTable::new(layout, MemoryShare::default()).unwrap()));
}

#[test]
fn an_empty_table_takes_no_memory_of_those_that_went() {
    let layout = layout_by_name(10);
    let mut table = MemoryTable::new(Arc::clone(&layout), MemoryShare::default()).unwrap();
    let empty = table.usage().memory_bytes;
    for round in 0..20 {
        let of: Vec<Row> =
            (0..1000).map(|n| (round * 50 + n % 50, format!("round {round}, {}", n % 100), n)).collect();
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values(of.iter().map(|(.., n)| n.to_string())));
        table.write(&keys_by_name(&layout, &of), &[texts]).unwrap();
        table.evict(Bucket(round * 50 + 27)).unwrap();
        table.evict(Bucket(round * 50 + 49)).unwrap();
    }
    // The list of names keeps the room that it had.
    assert_eq!(table.usage().keys, 0);
    assert!(table.usage().memory_bytes < empty + 20_000, "{:?}", table.usage());
}

/// Keys of a table of names for ever.
fn names_for_ever(layout: &Layout, names: impl Iterator<Item = usize>) -> Keys {
    let columns: [ArrayRef; 1] = [Arc::new(Int64Array::from_iter_values(names.map(|name| name as i64)))];
    let mut keys = Keys::default();
    for row in layout.encode_keys(&columns).unwrap().iter() {
        keys.insert(Bucket::FOR_EVER, KeyHash::of(row.data()), row.data());
    }
    keys
}

#[test]
fn keys_that_are_taken_out_leave_no_memory_behind() {
    let field = |name: &str, data_type| Arc::new(Field::new(name, data_type, true));
    let values = vec![field("number", DataType::Int64), field("text", DataType::Utf8)];
    let layout = Arc::new(Layout::new("t", vec![field("name", DataType::Int64)], values).unwrap());
    let mut table = MemoryTable::new(Arc::clone(&layout), MemoryShare::default()).unwrap();
    let write = |table: &mut MemoryTable, names: std::ops::Range<usize>| {
        let values: [ArrayRef; 2] = [
            Arc::new(Int64Array::from_iter_values(names.clone().map(|name| name as i64))),
            Arc::new(StringArray::from_iter_values(names.clone().map(|name| format!("text {name}")))),
        ];
        table.write(&names_for_ever(&layout, names), &values).unwrap();
    };
    for round in 0..40 {
        let names = round * 2000..(round + 1) * 2000;
        write(&mut table, names.clone());
        // Each tenth stays.
        table.remove(&names_for_ever(&layout, names.filter(|name| name % 10 > 0))).unwrap();
        table.version().unwrap();
    }
    let mut fresh = MemoryTable::new(Arc::clone(&layout), MemoryShare::default()).unwrap();
    write(&mut fresh, 0..8000);
    assert_eq!(table.usage().keys, 8000);
    // As many may have gone as are there, and buffers have room.
    let limit = fresh.usage().memory_bytes * 4;
    assert!(table.usage().memory_bytes < limit, "{:?}, {limit}", table.usage());
    let found = table.read(&names_for_ever(&layout, 0..80_000)).unwrap();
    assert!(found.places.iter().all(|place| place % 10 == 0) && found.places.len() == 8000);
    let texts = found.values[1].as_string::<i32>();
    assert!((0..8000).all(|row| texts.value(row) == format!("text {}", row * 10)));
}

#[test]
fn a_snapshot_is_not_changed_by_what_comes_later() {
    let layout = layout();
    let mut table = MemoryTable::new(Arc::clone(&layout), MemoryShare::default()).unwrap();
    let of = keys(&layout, &[(7, "a".into()), (8, "b".into())]);
    let write = |table: &mut MemoryTable, numbers: [i64; 2]| {
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["x", "y"]));
        let lists: ArrayRef = Arc::new(lists(&numbers.map(Some)));
        table.write(&of, &[Arc::new(Int64Array::from(numbers.to_vec())), texts, lists]).unwrap();
    };
    write(&mut table, [1, 2]);
    let version = table.version().unwrap().unwrap();
    assert_eq!(version.kind, VersionKind::Snapshot);
    write(&mut table, [3, 4]);
    table.evict(Bucket(7)).unwrap();
    let numbers: Vec<_> = model_of(&stored(version).rows).into_values().map(|(number, _)| number).collect();
    assert_eq!(numbers, [Some(1), Some(2)]);
}

//! Contract of a provider of state. Goal: a table is a map, whatever happens to it, and its versions restore it. Method: random
//! writes, reads, evictions, versions and restarts beside a `BTreeMap`.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type};
use yeoul_simulation::Random;

use super::*;

type Model = BTreeMap<(i64, String), (Option<i64>, Option<String>)>;

fn layout() -> Arc<Layout> {
    let field = |name: &str, data_type| Arc::new(Field::new(name, data_type, true));
    let keys = vec![field("bucket", DataType::Int64), field("name", DataType::Utf8)];
    let values = vec![field("number", DataType::Int64), field("text", DataType::Utf8)];
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

fn model_of<'a>(rows: impl IntoIterator<Item = &'a StateRows>) -> Model {
    let mut model = Model::new();
    for part in rows {
        let (buckets, names) = (part.keys[0].as_primitive::<Int64Type>(), part.keys[1].as_string::<i32>());
        let (numbers, texts) =
            (part.values[0].as_primitive::<Int64Type>(), part.values[1].as_string::<i32>());
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
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let layout = layout();
        let (mut table, mut model) = (new(Arc::clone(&layout)), Model::new());
        // Everything since the last snapshot, with what the table was then.
        let mut versions: Vec<StoredVersion> = Vec::new();
        let (mut saved, mut evicted, mut kinds) = (Model::new(), i64::MIN, [0, 0]);
        for step in 0..200 {
            match random.below(10) {
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
                    let values: [ArrayRef; 2] = [
                        Arc::new(Int64Array::from(numbers.clone())),
                        Arc::new(StringArray::from(texts.clone())),
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
                    if let Some(version) = table.version().unwrap().map(stored) {
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
}

#[test]
fn memory_keeps_the_contract() {
    check(|layout| Box::new(MemoryTable::new(layout, MemoryShare::default()).unwrap()));
}

#[test]
fn a_snapshot_is_not_changed_by_what_comes_later() {
    let layout = layout();
    let mut table = MemoryTable::new(Arc::clone(&layout), MemoryShare::default()).unwrap();
    let of = keys(&layout, &[(7, "a".into()), (8, "b".into())]);
    let write = |table: &mut MemoryTable, numbers: [i64; 2]| {
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["x", "y"]));
        table.write(&of, &[Arc::new(Int64Array::from(numbers.to_vec())), texts]).unwrap();
    };
    write(&mut table, [1, 2]);
    let version = table.version().unwrap().unwrap();
    assert_eq!(version.kind, VersionKind::Snapshot);
    write(&mut table, [3, 4]);
    table.evict(Bucket(7)).unwrap();
    let numbers: Vec<_> = model_of(&stored(version).rows).into_values().map(|(number, _)| number).collect();
    assert_eq!(numbers, [Some(1), Some(2)]);
}

//! Goal: units are byte-equal to those of Hadoop's own coders. Method: the file holds what `RawErasureEncoder` of Hadoop 3.4.2
//! printed for each code; we encode the same data, and rebuild from every set of units.

#![allow(clippy::unwrap_used)] // what helps a test fails it

use serde_json::Value;
use yeoul_erasure::{Code, Coder, Kernel, Schema, UnitSet};

fn units(line: &Value, field: &str) -> Vec<Vec<u8>> {
    let bytes = |text: &str| {
        (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..][..2], 16).unwrap()).collect()
    };
    line[field].as_array().unwrap().iter().map(|unit| bytes(unit.as_str().unwrap())).collect()
}

#[test]
fn parity_is_what_hadoop_computes() {
    let lines = include_str!("hadoop.jsonl").lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut codes = Vec::new();
    for line in lines {
        let (data, parity) = (units(&line, "data"), units(&line, "parity"));
        let code: Code = line["codec"].as_str().unwrap().parse().unwrap();
        let schema = Schema::new(code, data.len(), parity.len()).unwrap();
        for kernel in Kernel::available() {
            // Long enough for vectors: the golden units, over and over.
            let long = |units: &[Vec<u8>]| units.iter().map(|unit| unit.repeat(20)).collect::<Vec<_>>();
            let mut computed = vec![vec![0xee; 320]; parity.len()];
            Coder::with_kernel(schema, kernel).encode(&long(&data), &mut computed);
            assert_eq!(computed, long(&parity), "{schema} by {kernel:?}");
        }
        let all = [data, parity].concat();
        for left in (0u32..1 << all.len()).filter(|left| left.count_ones() as usize == schema.data_units()) {
            let left: UnitSet =
                UnitSet::first(all.len()).iter().filter(|unit| left & (1 << unit.0) != 0).collect();
            let plan =
                Coder::new(schema).reconstruction(left, UnitSet::first(all.len()).without(left)).unwrap();
            let sources: Vec<&Vec<u8>> =
                plan.sources().iter().map(|unit| &all[usize::from(unit.0)]).collect();
            let mut rebuilt = vec![vec![0; 16]; plan.targets().len()];
            plan.run(&sources, &mut rebuilt);
            for (unit, bytes) in plan.targets().iter().zip(&rebuilt) {
                assert_eq!(bytes, &all[usize::from(unit.0)], "{schema}: unit {unit} from {left:?}");
            }
        }
        codes.push(schema.to_string());
    }
    assert_eq!(codes, ["RS-6-3", "RS-3-2", "RS-10-4", "RS-LEGACY-6-3", "XOR-2-1"]);
}

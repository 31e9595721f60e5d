//! The eight tables of TPC-H, cut into parts that can be generated independently of each other.

use arrow::datatypes::SchemaRef;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow,
    SupplierArrow,
};

use super::table::{Batches, Table, parts_for};

/// Lines of an order, on average (clause 4.2.3: between one and seven).
const LINES_PER_ORDER: u64 = 4;

/// The tables at `scale` in parts of about `part_rows` rows, the largest first.
pub(super) fn tables(scale: f64, part_rows: u64) -> Vec<Table> {
    let rows = |of: fn(f64, i32, i32) -> i64| of(scale, 1, 1).unsigned_abs();
    let orders = rows(OrderGenerator::calculate_row_count);
    macro_rules! table {
        ($name:literal, $rows:expr, $arrow:ident, $generator:ident) => {
            table($name, $rows, part_rows, $arrow::schema_ref(), move |part, parts| {
                Box::new($arrow::new($generator::new(scale, part, parts)))
            })
        };
    }
    vec![
        table!("lineitem", orders * LINES_PER_ORDER, LineItemArrow, LineItemGenerator),
        table!("orders", orders, OrderArrow, OrderGenerator),
        table!("partsupp", rows(PartSuppGenerator::calculate_row_count), PartSuppArrow, PartSuppGenerator),
        table!("part", rows(PartGenerator::calculate_row_count), PartArrow, PartGenerator),
        table!("customer", rows(CustomerGenerator::calculate_row_count), CustomerArrow, CustomerGenerator),
        table!("supplier", rows(SupplierGenerator::calculate_row_count), SupplierArrow, SupplierGenerator),
        table!("nation", 25, NationArrow, NationGenerator),
        table!("region", 5, RegionArrow, RegionGenerator),
    ]
}

/// One table; `open` takes a part number, from 1, and the number of parts, as the generators count them.
fn table(
    name: &'static str,
    rows: u64,
    part_rows: u64,
    schema: SchemaRef,
    open: impl Fn(i32, i32) -> Batches + Send + Sync + 'static,
) -> Table {
    let parts = parts_for(rows, part_rows);
    let count = i32::try_from(parts).expect("the largest scale has fewer parts than i32 counts");
    Table {
        name,
        rows,
        schema,
        parts,
        open: Box::new(move |part| open(i32::try_from(part + 1).expect("a part is below the count"), count)),
    }
}

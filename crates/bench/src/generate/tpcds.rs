//! The 24 tables of TPC-DS, cut into parts that can be generated independently of each other.
//!
//! `dbgen_version`, which holds the time and the arguments of the run, is left out: no query reads it, and without it the
//! same scale gives the same bytes.

use arrow::datatypes::SchemaRef;
use tpcdsgen::config::{Session, SessionBuilder, Table as Name};
use tpcdsgen_arrow as generator;

use super::table::{Batches, Table, parts_for};
use yeoul_base::ErrorKind;

use crate::error::{Error, Result};

/// The tables at `scale` in parts of about `part_rows` rows, the largest first.
///
/// # Errors
/// `Invalid` if the generator refuses the scale.
pub(super) fn tables(scale: f64, part_rows: u64) -> Result<Vec<Table>> {
    let session = SessionBuilder::new()
        .with_scale_factor(scale)
        .build()
        .map_err(|e| Error::new(ErrorKind::Invalid, format!("scale {scale}: {e}")))?;
    // The last number is how many rows one source row gives: an order has several lines, and one in ten of those is
    // returned.
    macro_rules! tables {
        ($($name:ident, $arrow:ident, $rows_per_source_row:literal;)*) => {
            vec![$(table(&session, Name::$name, $rows_per_source_row, part_rows, generator::$arrow::schema_ref(), |session, first, last| {
                Box::new(generator::$arrow::new(session).with_source_row_range(first, last))
            })),*]
        };
    }
    Ok(tables! {
        StoreSales, StoreSalesArrow, 12.0;
        Inventory, InventoryArrow, 1.0;
        CatalogSales, CatalogSalesArrow, 9.0;
        WebSales, WebSalesArrow, 12.0;
        CustomerDemographics, CustomerDemographicsArrow, 1.0;
        StoreReturns, StoreReturnsArrow, 1.2;
        CatalogReturns, CatalogReturnsArrow, 0.9;
        WebReturns, WebReturnsArrow, 1.2;
        Customer, CustomerArrow, 1.0;
        CustomerAddress, CustomerAddressArrow, 1.0;
        Item, ItemArrow, 1.0;
        TimeDim, TimeDimArrow, 1.0;
        DateDim, DateDimArrow, 1.0;
        CatalogPage, CatalogPageArrow, 1.0;
        HouseholdDemographics, HouseholdDemographicsArrow, 1.0;
        Promotion, PromotionArrow, 1.0;
        WebPage, WebPageArrow, 1.0;
        WebSite, WebSiteArrow, 1.0;
        Store, StoreArrow, 1.0;
        CallCenter, CallCenterArrow, 1.0;
        Reason, ReasonArrow, 1.0;
        Warehouse, WarehouseArrow, 1.0;
        ShipMode, ShipModeArrow, 1.0;
        IncomeBand, IncomeBandArrow, 1.0;
    })
}

fn table(
    session: &Session,
    name: Name,
    rows_per_source_row: f64,
    part_rows: u64,
    schema: SchemaRef,
    open: impl Fn(Session, u64, u64) -> Batches + Send + Sync + 'static,
) -> Table {
    let source_rows = session.get_scaling().get_row_count(name);
    let rows = (source_rows as f64 * rows_per_source_row) as u64;
    let parts = parts_for(rows, part_rows).min(source_rows.max(1));
    let session = session.clone();
    Table {
        name: name.get_name(),
        rows,
        schema,
        parts,
        // Parts cover the source rows 1..=source_rows without gap or overlap.
        open: Box::new(move |part| {
            let first = part * source_rows / parts + 1;
            let last = (part + 1) * source_rows / parts;
            open(session.clone(), first, last)
        }),
    }
}

use datafusion::common::{Column, TableReference};

/// What the columns of a join with `USING` are called, and those of the joins within it.
///
/// In the plan the merged column has its plain name. The one of each side that is not it is still there, without a table and under a name
/// such as `b.x`, which nothing but a statement that is made to name it does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct JoinedColumns {
    /// The tables of the join with all of their columns, in the order that they have in the table.
    pub(crate) tables: Vec<JoinedTable>,
    /// The columns that a name without a table is.
    pub(crate) merged: Vec<Column>,
}

/// A table of such a join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JoinedTable {
    pub(crate) name: Vec<String>,
    pub(crate) columns: Vec<OwnColumn>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnColumn {
    pub(crate) name: String,
    /// The name that the plan has for it, if that is another.
    pub(crate) hidden: Option<String>,
}

impl JoinedColumns {
    /// Adds what an inner join is.
    pub(crate) fn extend(&mut self, inner: Self) {
        self.tables.extend(inner.tables);
        self.merged.extend(inner.merged);
    }

    /// Adds the tables of these columns that are not known yet: what they have is all here, and in its order.
    pub(crate) fn add_tables(&mut self, columns: &[Column]) {
        let known = self.tables.len();
        for column in columns {
            // A merged column of neither side is of no table.
            let Some(table) = column.relation.as_ref().filter(|_| !self.merged.contains(column)) else {
                continue;
            };
            let name = table.to_vec();
            let own = OwnColumn { name: column.name.clone(), hidden: None };
            match self.tables.iter().position(|table| table.name == name) {
                Some(place) if place < known => {}
                Some(place) => self.tables[place].columns.push(own),
                None => self.tables.push(JoinedTable { name, columns: vec![own] }),
            }
        }
    }

    /// Notes that a column is no longer called by its table, and gives the name that the plan has for it. `None` for one that no table has.
    pub(crate) fn hide(&mut self, column: &Column) -> Option<String> {
        let name = column.relation.as_ref()?.to_vec();
        let table = self.tables.iter_mut().find(|table| table.name == name)?;
        let own = table.columns.iter_mut().find(|own| own.name == column.name)?;
        let hidden = hidden_name(column.relation.as_ref()?, &column.name);
        own.hidden = Some(hidden.clone());
        Some(hidden)
    }

    /// All names of the plan that a `*` leaves out.
    pub(crate) fn hidden(&self) -> impl Iterator<Item = &String> {
        self.tables.iter().flat_map(|table| &table.columns).filter_map(|column| column.hidden.as_ref())
    }

    /// True if a column of the plan is one that is hidden.
    pub(crate) fn is_hidden(&self, column: &Column) -> bool {
        column.relation.is_none() && self.hidden().any(|hidden| *hidden == column.name)
    }

    /// Notes that this column is what a name without a table is.
    pub(crate) fn merge(&mut self, column: Column) {
        self.merged.retain(|merged| merged.name != column.name);
        self.merged.push(column);
    }
}

/// The name of a hidden column: what a column of a table is called where names have no parts, so that what is computed of it is called the
/// same as ever.
fn hidden_name(table: &TableReference, column: &str) -> String {
    format!("{table}.{column}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_that_is_hidden_keeps_its_place_in_its_table() {
        let column = |table: &str, name: &str| Column::new(Some(TableReference::parse_str(table)), name);
        let mut inner = JoinedColumns::default();
        inner.add_tables(&[column("a", "k"), column("a", "x"), column("s.b", "x")]);
        assert_eq!(inner.hide(&column("s.b", "x")).as_deref(), Some("s.b.x"));
        assert_eq!(inner.hide(&column("using_1", "x")), None);
        let mut outer = JoinedColumns::default();
        outer.extend(inner);
        // The merged column has moved to the front, where it is still of its table.
        outer.add_tables(&[column("a", "x"), column("a", "k"), Column::from_name("s.b.x"), column("c", "x")]);
        assert_eq!(outer.hide(&column("a", "x")).as_deref(), Some("a.x"));
        let tables: Vec<String> = outer
            .tables
            .iter()
            .map(|table| {
                format!(
                    "{}{:?}",
                    table.name.join("."),
                    table
                        .columns
                        .iter()
                        .map(|column| column.hidden.as_deref().unwrap_or(&column.name))
                        .collect::<Vec<_>>()
                )
            })
            .collect();
        assert_eq!(tables, ["a[\"k\", \"a.x\"]", "s.b[\"s.b.x\"]", "c[\"x\"]"]);
        assert!(outer.is_hidden(&Column::from_name("s.b.x")) && !outer.is_hidden(&column("s.b", "s.b.x")));
    }
}

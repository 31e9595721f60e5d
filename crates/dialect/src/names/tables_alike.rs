//! Tables of one name in several schemas: `FROM tbl, s1.tbl`. To DataFusion `tbl` and `s1.tbl` are the same table wherever it looks for a
//! column. So the longer names become aliases, which differ.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Select, SelectItem, SelectItemQualifiedWildcardKind, TableAlias, TableFactor,
    TableWithJoins, VisitorMut,
};
use yeoul_base::ErrorKind;

use super::scopes::{Named, Renames, Scoped, Scopes, TableName, for_each_factor, name_of, parts_of, quoted};
use crate::parse::visit::{visit, walk};
use crate::{Error, Result};

/// Gives such tables aliases.
///
/// # Errors
/// `Invalid` for a column of `tbl` where that is two tables.
pub(crate) fn name_apart(statement: &mut Statement) -> Result<()> {
    let mut names = Names::default();
    visit(statement, &mut names);
    let mut taken: BTreeSet<String> = names.0.keys().cloned().collect();
    let mut alike = BTreeMap::new();
    for name in names.0.into_values().filter(|names| names.len() > 1).flatten().filter(|name| name.len() > 1)
    {
        // Not the name itself: in a name, DataFusion takes a dot for one between two parts.
        let mut alias = name.join("_");
        while !taken.insert(alias.clone()) {
            alias.push('_');
        }
        alike.insert(name, alias);
    }
    if alike.is_empty() {
        return Ok(());
    }
    match walk(statement, &mut Scoped::new(Aliases { alike })) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// The names by which tables are known anywhere in a statement, by their last parts.
#[derive(Default)]
struct Names(BTreeMap<String, BTreeSet<TableName>>);

impl VisitorMut for Names {
    type Break = Infallible;

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Infallible> {
        if let Some(name) = name_of(factor)
            && let Some(last) = name.last()
        {
            self.0.entry(last.clone()).or_default().insert(name);
        }
        ControlFlow::Continue(())
    }
}

struct Aliases {
    /// The names that become aliases, with these.
    alike: BTreeMap<TableName, String>,
}

/// A table of a `FROM`.
#[derive(Clone)]
struct Table {
    name: TableName,
    alias: Option<String>,
}

impl Named for Table {
    fn name(&self) -> &TableName {
        &self.name
    }
}

impl Aliases {
    /// The alias of the table that the first parts of a name are, if it has one.
    fn alias(&self, parts: &[Ident], scopes: &Scopes<Table>) -> Result<Option<(Ident, usize)>> {
        let (tables, count) = scopes.find(parts);
        match tables[..] {
            [] => Ok(None),
            [table] => Ok(table.alias.as_ref().map(|alias| (quoted(alias), count))),
            _ => {
                let written = parts[..count].iter().map(ToString::to_string).collect::<Vec<_>>().join(".");
                let names: Vec<String> = tables.iter().map(|table| table.name.join(".")).collect();
                let text = format!("'{written}' is {} tables here: {}", names.len(), names.join(", "));
                Err(Error::new(ErrorKind::Invalid, text)
                    .with_hint("write the schema, too, or give the tables aliases"))
            }
        }
    }

    fn in_from(&self, from: &mut [TableWithJoins]) {
        for tables in from {
            let factors = std::iter::once(&mut tables.relation)
                .chain(tables.joins.iter_mut().map(|join| &mut join.relation));
            for factor in factors {
                match factor {
                    TableFactor::NestedJoin { table_with_joins, alias: None } => {
                        self.in_from(std::slice::from_mut(table_with_joins.as_mut()));
                    }
                    TableFactor::Table { name, alias: alias @ None, .. } => {
                        let name = parts_of(name).and_then(|name| self.alike.get(&name));
                        *alias = name.map(|name| TableAlias {
                            explicit: true,
                            name: quoted(name),
                            columns: Vec::new(),
                            at: None,
                        });
                    }
                    _ => {}
                }
            }
        }
    }
}

impl Renames for Aliases {
    type Table = Table;

    fn tables(&self, select: &Select) -> Vec<Table> {
        let mut tables = Vec::new();
        for_each_factor(&select.from, &mut |factor| {
            let is_named = matches!(factor, TableFactor::Table { alias: None, .. });
            tables.extend(name_of(factor).map(|name| {
                let alias = self.alike.get(&name).filter(|_| is_named).cloned();
                Table { name, alias }
            }));
        });
        tables
    }

    fn in_select(&mut self, select: &mut Select, scopes: &Scopes<Table>) -> Result<()> {
        self.in_from(&mut select.from);
        for item in &mut select.projection {
            let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) = item
            else {
                continue;
            };
            let parts: Option<Vec<Ident>> = name.0.iter().map(|part| part.as_ident().cloned()).collect();
            let Some(mut parts) = parts else { continue };
            parts.push(quoted("*"));
            if let Some((alias, count)) = self.alias(&parts, scopes)?
                && count + 1 == parts.len()
            {
                *name = vec![alias].into();
            }
        }
        Ok(())
    }

    fn column(&mut self, parts: &[Ident], scopes: &Scopes<Table>) -> Result<Option<Expr>> {
        let Some((alias, count)) = self.alias(parts, scopes)? else { return Ok(None) };
        let parts = std::iter::once(alias).chain(parts[count..].iter().cloned()).collect();
        Ok(Some(Expr::CompoundIdentifier(parts)))
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::DFParser;

    use super::*;

    fn apart(sql: &str) -> Result<String> {
        let mut statement = DFParser::parse_sql(sql).unwrap().pop_front().unwrap();
        name_apart(&mut statement).map(|()| statement.to_string())
    }

    #[test]
    fn tables_of_one_name_get_aliases() {
        for (sql, expected) in [
            (
                "SELECT tbl.i, s1.tbl.i FROM tbl, s1.tbl",
                "SELECT tbl.i, \"s1_tbl\".i FROM tbl, s1.tbl AS \"s1_tbl\"",
            ),
            (
                "SELECT s1.tbl.*, S2.Tbl.i FROM (s1.tbl JOIN s2.tbl ON s1.tbl.i = s2.tbl.i) ORDER BY s1.tbl.j",
                "SELECT \"s1_tbl\".*, \"s2_tbl\".i FROM (s1.tbl AS \"s1_tbl\" JOIN s2.tbl AS \"s2_tbl\" ON \"s1_tbl\".i = \"s2_tbl\".i) \
                 ORDER BY \"s1_tbl\".j",
            ),
            // The inner `tbl` is that of its own FROM; `s1.tbl` is only around it.
            (
                "SELECT 1 FROM s1.tbl WHERE EXISTS (SELECT 1 FROM tbl WHERE s1.tbl.i = tbl.i)",
                "SELECT 1 FROM s1.tbl AS \"s1_tbl\" WHERE EXISTS (SELECT 1 FROM tbl WHERE \"s1_tbl\".i = tbl.i)",
            ),
            (
                "SELECT 1 FROM tbl WHERE EXISTS (SELECT tbl.i FROM s1.tbl)",
                "SELECT 1 FROM tbl WHERE EXISTS (SELECT \"s1_tbl\".i FROM s1.tbl AS \"s1_tbl\")",
            ),
            // A subquery of FROM does not see what stands beside it.
            (
                "SELECT (SELECT 1 FROM s1.tbl, (SELECT tbl.i) AS q) FROM tbl",
                "SELECT (SELECT 1 FROM s1.tbl AS \"s1_tbl\", (SELECT tbl.i) AS q) FROM tbl",
            ),
            (
                "SELECT (SELECT 1 FROM s1.tbl, LATERAL (SELECT tbl.i) AS q) FROM tbl",
                "SELECT (SELECT 1 FROM s1.tbl AS \"s1_tbl\", LATERAL (SELECT \"s1_tbl\".i) AS q) FROM tbl",
            ),
            (
                "WITH tbl AS (SELECT s1.tbl.i FROM s1.tbl) SELECT tbl.i FROM tbl",
                "WITH tbl AS (SELECT \"s1_tbl\".i FROM s1.tbl AS \"s1_tbl\") SELECT tbl.i FROM tbl",
            ),
            (
                "SELECT s1.tbl.i FROM tbl, s1.tbl, s1_tbl",
                "SELECT \"s1_tbl_\".i FROM tbl, s1.tbl AS \"s1_tbl_\", s1_tbl",
            ),
            ("SELECT a.i, s1.tbl.i FROM tbl AS a, s1.tbl", "SELECT a.i, s1.tbl.i FROM tbl AS a, s1.tbl"),
            ("SELECT s1.tbl.i, tbl.i FROM s1.tbl", "SELECT s1.tbl.i, tbl.i FROM s1.tbl"),
        ] {
            assert_eq!(apart(sql).unwrap(), expected, "{sql}");
        }
    }

    #[test]
    fn a_name_of_two_tables_is_refused() {
        for sql in ["SELECT tbl.i FROM s1.tbl, s2.tbl", "SELECT tbl.* FROM s1.tbl, s2.tbl"] {
            let error = apart(sql).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert_eq!(error.to_string(), "'tbl' is 2 tables here: s1.tbl, s2.tbl");
        }
    }
}

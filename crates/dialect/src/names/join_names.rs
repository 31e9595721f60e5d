use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    ExceptSelectItem, ExcludeSelectItem, Expr, Ident, ObjectName, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, TableFactor, TableWithJoins, VisitorMut, WildcardAdditionalOptions,
};
use yeoul_base::ErrorKind;

use super::join_mark::{JoinId, outermost};
use super::joined_columns::{JoinedColumns, OwnColumn};
use crate::names::normalized;
use crate::names::scopes::{Named, Renames, Scoped, Scopes, TableName, name_of, quoted};
use crate::parse::visit::{walk, walk_in};
use crate::{Error, Result};

/// Lets a statement whose joins are marked name the columns that are hidden in the plan: `b.x` becomes `"b.x"`, and a `*` leaves it out.
///
/// # Errors
/// `Invalid` for a `b.*` with a clause that cannot be carried over to the columns of `b`.
pub(crate) fn name_columns(statement: &mut Statement, joins: &HashMap<JoinId, JoinedColumns>) -> Result<()> {
    match walk(statement, &mut Scoped::new(HiddenColumns { joins })) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct HiddenColumns<'a> {
    joins: &'a HashMap<JoinId, JoinedColumns>,
}

/// A table of a `FROM`, with its columns if it is one of a marked join.
#[derive(Clone)]
struct Table {
    name: TableName,
    columns: Option<Vec<OwnColumn>>,
}

impl Named for Table {
    fn name(&self) -> &TableName {
        &self.name
    }
}

impl HiddenColumns<'_> {
    fn joins_of(&self, select: &Select) -> Vec<&JoinedColumns> {
        select.from.iter().flat_map(outermost).filter_map(|id| self.joins.get(&id)).collect()
    }

    fn add_tables(&self, tables: &TableWithJoins, found: &mut Vec<Table>) {
        let factors = std::iter::once(&tables.relation).chain(tables.joins.iter().map(|join| &join.relation));
        for factor in factors {
            if let Some((id, inner)) = JoinId::of(factor) {
                match self.joins.get(&id) {
                    Some(join) => found.extend(join.tables.iter().map(|table| Table {
                        name: table.name.clone(),
                        columns: Some(table.columns.clone()),
                    })),
                    None => self.add_tables(inner, found),
                }
            } else if let TableFactor::NestedJoin { table_with_joins, alias: None } = factor {
                self.add_tables(table_with_joins, found);
            } else {
                found.extend(name_of(factor).map(|name| Table { name, columns: None }));
            }
        }
    }
}

impl Renames for HiddenColumns<'_> {
    type Table = Table;

    fn tables(&self, select: &Select) -> Vec<Table> {
        let mut found = Vec::new();
        select.from.iter().for_each(|tables| self.add_tables(tables, &mut found));
        found
    }

    /// Within a marked join its columns are not merged yet.
    fn tables_within(&self, factor: &TableFactor) -> Option<Vec<Table>> {
        let (_, tables) = JoinId::of(factor)?;
        let mut found = Vec::new();
        self.add_tables(tables, &mut found);
        Some(found)
    }

    fn in_select(&mut self, select: &mut Select, scopes: &Scopes<Table>) -> Result<()> {
        let hidden: Vec<String> =
            self.joins_of(select).iter().flat_map(|join| join.hidden().cloned()).collect();
        let mut given = Vec::new();
        let mut items = Vec::with_capacity(select.projection.len());
        for mut item in std::mem::take(&mut select.projection) {
            match &mut item {
                SelectItem::Wildcard(options) => leave_out(options, &hidden),
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                    if let Some(columns) = all_of(name, options, scopes)? {
                        items.extend(columns);
                        continue;
                    }
                }
                SelectItem::UnnamedExpr(expr) => {
                    if let Some(name) = hidden_in(expr, scopes) {
                        given.push(normalized(&name));
                        let expr = expr.clone();
                        item = SelectItem::ExprWithAlias { expr, alias: name };
                    }
                }
                _ => {}
            }
            items.push(item);
        }
        select.projection = items;
        // A name that an item was given here is not meant where DataFusion looks at the items' names first.
        let joins = self.joins_of(select);
        let mut merged = MergedNames { joins: &joins, given: &given, queries: 0 };
        for clause in select.having.iter_mut().chain(&mut select.qualify) {
            let ControlFlow::Continue(()) = walk_in(clause, &mut merged);
        }
        Ok(())
    }

    fn column(&mut self, parts: &[Ident], scopes: &Scopes<Table>) -> Result<Option<Expr>> {
        let Some((hidden, count)) = hidden_column(parts, scopes) else { return Ok(None) };
        let hidden = quoted(hidden);
        let fields = &parts[count + 1..];
        Ok(Some(if fields.is_empty() {
            Expr::Identifier(hidden)
        } else {
            Expr::CompoundIdentifier(std::iter::once(hidden).chain(fields.iter().cloned()).collect())
        }))
    }
}

/// The hidden column that the name is, and how many of its parts are the table's.
fn hidden_column(parts: &[Ident], scopes: &Scopes<Table>) -> Option<(String, usize)> {
    let (tables, count) = scopes.find(parts);
    let name = normalized(parts.get(count)?);
    let columns = tables.first()?.columns.as_ref()?;
    let hidden = columns.iter().find(|column| column.name == name)?.hidden.clone()?;
    Some((hidden, count))
}

/// The name of an item that is a hidden column.
fn hidden_in(mut expr: &Expr, scopes: &Scopes<Table>) -> Option<Ident> {
    while let Expr::Nested(inner) = expr {
        expr = inner;
    }
    let Expr::CompoundIdentifier(parts) = expr else { return None };
    let (_, count) = hidden_column(parts, scopes)?;
    parts.get(count).filter(|_| parts.len() == count + 1).cloned()
}

/// Adds what is hidden to what a `*` leaves out.
fn leave_out(options: &mut WildcardAdditionalOptions, hidden: &[String]) {
    if hidden.is_empty() {
        return;
    }
    let mut names = match options.opt_exclude.take() {
        None => Vec::new(),
        Some(ExcludeSelectItem::Single(name)) => vec![name],
        Some(ExcludeSelectItem::Multiple(names)) => names,
    };
    let left_out: Vec<ObjectName> = hidden.iter().map(|name| ObjectName::from(vec![quoted(name)])).collect();
    // The names that a pattern left out are among them.
    names.retain(|name| !left_out.contains(name));
    names.extend(left_out);
    options.opt_exclude = Some(ExcludeSelectItem::Multiple(names));
}

/// The columns that `b.*` is, if `b` is a table of a marked join.
fn all_of(
    name: &ObjectName,
    options: &WildcardAdditionalOptions,
    scopes: &Scopes<Table>,
) -> Result<Option<Vec<SelectItem>>> {
    let parts: Option<Vec<Ident>> = name.0.iter().map(|part| part.as_ident().cloned()).collect();
    let Some(parts) = parts else { return Ok(None) };
    let of_table: Vec<Ident> = parts.iter().cloned().chain([quoted("*")]).collect();
    let (tables, count) = scopes.find(&of_table);
    let Some(columns) =
        tables.first().and_then(|table| table.columns.as_ref()).filter(|_| count == parts.len())
    else {
        return Ok(None);
    };
    let WildcardAdditionalOptions {
        wildcard_token: _,
        opt_ilike,
        opt_exclude,
        opt_except,
        opt_replace,
        opt_rename,
        opt_alias,
    } = options;
    if opt_ilike.is_some() || opt_replace.is_some() || opt_rename.is_some() || opt_alias.is_some() {
        let text =
            format!("not supported: ILIKE, REPLACE, RENAME or AS for {name}.*, a table in a join with USING");
        return Err(Error::new(ErrorKind::Invalid, text).with_hint("name the columns"));
    }
    let mut left_out = excluded(opt_exclude.as_ref());
    if let Some(ExceptSelectItem { first_element, additional_elements }) = opt_except {
        left_out.extend(std::iter::once(first_element).chain(additional_elements).map(normalized));
    }
    if let Some(unknown) = left_out.iter().find(|name| columns.iter().all(|column| column.name != **name)) {
        let text = format!("there is no column '{unknown}' in '{name}' to leave out");
        return Err(Error::new(ErrorKind::Invalid, text));
    }
    let items = columns.iter().filter(|column| !left_out.contains(&column.name)).map(|column| match &column
        .hidden
    {
        Some(hidden) => {
            SelectItem::ExprWithAlias { expr: Expr::Identifier(quoted(hidden)), alias: quoted(&column.name) }
        }
        None => SelectItem::UnnamedExpr(Expr::CompoundIdentifier(
            parts.iter().cloned().chain([quoted(&column.name)]).collect(),
        )),
    });
    Ok(Some(items.collect()))
}

fn excluded(exclude: Option<&ExcludeSelectItem>) -> Vec<String> {
    let names = match exclude {
        None => return Vec::new(),
        Some(ExcludeSelectItem::Single(name)) => std::slice::from_ref(name),
        Some(ExcludeSelectItem::Multiple(names)) => names,
    };
    names.iter().flat_map(|name| &name.0).filter_map(|part| part.as_ident()).map(normalized).collect()
}

/// Gives names of merged columns their table, where an item has got the same name.
struct MergedNames<'a> {
    joins: &'a [&'a JoinedColumns],
    given: &'a [String],
    /// How many queries the place is in: a column of theirs may have the name.
    queries: usize,
}

impl VisitorMut for MergedNames<'_> {
    type Break = std::convert::Infallible;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        if let Expr::Identifier(ident) = expr
            && self.queries == 0
        {
            let name = normalized(ident);
            let merged = self.joins.iter().flat_map(|join| &join.merged).find(|column| column.name == name);
            if let Some(table) = merged.and_then(|column| column.relation.as_ref())
                && self.given.contains(&name)
            {
                let parts = table.to_vec().into_iter().chain([name]).map(quoted);
                *expr = Expr::CompoundIdentifier(parts.collect());
            }
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use datafusion::common::{Column, TableReference};
    use datafusion::sql::parser::DFParser;

    use super::super::join_mark::mark;
    use super::*;

    /// A statement over `a (k, x) FULL JOIN b (x, y) USING (x)`, its first join.
    fn named(sql: &str) -> Result<String> {
        let column = |table: &str, name: &str| Column::new(Some(TableReference::bare(table)), name);
        let mut join = JoinedColumns::default();
        join.add_tables(&[column("a", "k"), column("a", "x"), column("b", "x"), column("b", "y")]);
        join.hide(&column("a", "x")).unwrap();
        join.hide(&column("b", "x")).unwrap();
        join.merge(column("using_1", "x"));
        let mut statement = DFParser::parse_sql(sql).unwrap().pop_front().unwrap();
        assert!(mark(&mut statement));
        name_columns(&mut statement, &HashMap::from([(JoinId(1), join)]))?;
        let text = statement.to_string();
        Ok(text.replace("(a FULL JOIN b USING(x)) AS \"\u{1}join 1\"", "J"))
    }

    #[test]
    fn hidden_columns_are_named_by_what_the_plan_has_for_them() {
        const J: &str = "a FULL JOIN b USING(x)";
        for (sql, expected) in [
            ("SELECT x, a.x, A.K FROM J", "SELECT x, \"a.x\" AS x, A.K FROM J"),
            ("SELECT * FROM J", "SELECT * EXCLUDE (\"a.x\", \"b.x\") FROM J"),
            ("SELECT * EXCLUDE (y) FROM J", "SELECT * EXCLUDE (y, \"a.x\", \"b.x\") FROM J"),
            (
                "SELECT a.*, b.* EXCEPT (y) FROM J",
                "SELECT a.\"k\", \"a.x\" AS \"x\", \"b.x\" AS \"x\" FROM J",
            ),
            (
                "SELECT (b.x), b.x + 1, b.x AS z FROM J WHERE b.x > 1 GROUP BY b.x HAVING x > (SELECT x) ORDER BY b.x + a.k",
                "SELECT (\"b.x\") AS x, \"b.x\" + 1, \"b.x\" AS z FROM J WHERE \"b.x\" > 1 GROUP BY \"b.x\" \
                 HAVING \"using_1\".\"x\" > (SELECT x) ORDER BY \"b.x\" + a.k",
            ),
            ("SELECT a.k FROM J HAVING x > 1", "SELECT a.k FROM J HAVING x > 1"),
            // A query's own table is meant first, then those around it.
            (
                "SELECT (SELECT b.x FROM c), (SELECT b.x FROM b) FROM J",
                "SELECT (SELECT \"b.x\" AS x FROM c), (SELECT b.x FROM b) FROM J",
            ),
            (
                "SELECT 1 FROM J, (SELECT b.x FROM c) AS q, LATERAL (SELECT b.x FROM c) AS r",
                "SELECT 1 FROM J, (SELECT b.x FROM c) AS q, LATERAL (SELECT \"b.x\" AS x FROM c) AS r",
            ),
            (
                "SELECT b.x FROM J UNION SELECT b.x FROM b",
                "SELECT \"b.x\" AS x FROM J UNION SELECT b.x FROM b",
            ),
            (
                "WITH w AS (SELECT b.x FROM b) SELECT b.y FROM J",
                "WITH w AS (SELECT b.x FROM b) SELECT b.y FROM J",
            ),
        ] {
            assert_eq!(named(&sql.replace("FROM J", &format!("FROM {J}"))).unwrap(), expected, "{sql}");
        }
    }

    #[test]
    fn within_a_join_its_columns_are_not_merged_yet() {
        let sql = "SELECT a.x FROM a JOIN LATERAL (SELECT a.x) AS b ON a.x = 1 FULL JOIN c USING(x)";
        let column = |table: &str, name: &str| Column::new(Some(TableReference::bare(table)), name);
        let mut join = JoinedColumns::default();
        join.add_tables(&[column("a", "x"), column("b", "y"), column("c", "x")]);
        join.hide(&column("a", "x")).unwrap();
        let mut statement = DFParser::parse_sql(sql).unwrap().pop_front().unwrap();
        assert!(mark(&mut statement));
        name_columns(&mut statement, &HashMap::from([(JoinId(1), join)])).unwrap();
        let text = statement.to_string();
        let expected = "SELECT \"a.x\" AS x FROM (a JOIN LATERAL (SELECT a.x) AS b ON a.x = 1 FULL JOIN c ";
        assert!(text.starts_with(expected), "{text}");
    }

    #[test]
    fn a_wildcard_whose_clause_cannot_be_kept_is_refused() {
        let error = named("SELECT b.* REPLACE (1 AS x) FROM a FULL JOIN b USING(x)").unwrap_err();
        assert!(error.to_string().starts_with("not supported: "), "{error}");
        let error = named("SELECT b.* EXCEPT (k) FROM a FULL JOIN b USING(x)").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
}

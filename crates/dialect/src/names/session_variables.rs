//! Names of a session's variables in Spark's statements. A name is a column's first, and a variable's where the statement has no column of
//! that name at all: where both may be meant, the variable is written `session.name`.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion::execution::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, OneOrManyWithParens, Query, Select, SelectItem, TableAlias, TableFactor, Value, VisitorMut,
};

use crate::functions::variables::Variables;
use crate::parse::function_call::function_call;
use crate::parse::variables::assigned;
use crate::parse::visit::visit;

/// Writes such names as calls of `getvariable`.
pub(crate) async fn name_values(statement: &mut Statement, state: &SessionState) {
    let Some(variables) = state.config().get_extension::<Variables>() else { return };
    let mut names = variables.names();
    if names.is_empty() {
        return;
    }
    let mut columns = Columns::default();
    visit(statement, &mut columns);
    if let Some((name, _)) = assigned(statement) {
        columns.names.remove(&name);
    }
    for table in state.resolve_table_references(statement).unwrap_or_default() {
        let name = table.table().to_owned();
        let table = match state.schema_for_ref(table) {
            Ok(schema) => schema.table(&name).await.ok().flatten(),
            Err(_) => None,
        };
        match table {
            Some(table) => {
                let fields = table.schema();
                columns.names.extend(fields.fields().iter().map(|field| field.name().to_lowercase()));
            }
            None => columns.has_others = true,
        }
    }
    let all = names.clone();
    names.retain(|name| !columns.has_others && !columns.names.contains(name));
    visit(statement, &mut Values { bare: names, all });
}

/// Names of a statement's columns, in small letters.
#[derive(Default)]
struct Columns {
    names: BTreeSet<String>,
    /// True if there are columns whose names are not known before the statement is planned.
    has_others: bool,
}

impl Columns {
    fn add(&mut self, name: &Ident) {
        self.names.insert(name.value.to_lowercase());
    }

    fn add_alias(&mut self, alias: Option<&TableAlias>) {
        let columns = alias.into_iter().flat_map(|alias| &alias.columns);
        columns.for_each(|column| self.add(&column.name));
    }
}

impl VisitorMut for Columns {
    type Break = Infallible;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Infallible> {
        let tables = query.with.iter().flat_map(|with| &with.cte_tables);
        tables.for_each(|table| self.add_alias(Some(&table.alias)));
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Infallible> {
        for item in &select.projection {
            match item {
                SelectItem::ExprWithAlias { alias, .. } => self.add(alias),
                SelectItem::ExprWithAliases { aliases, .. } => aliases.iter().for_each(|name| self.add(name)),
                _ => {}
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Infallible> {
        match factor {
            TableFactor::Table { args: Some(_), alias, .. }
            | TableFactor::Function { alias, .. }
            | TableFactor::UNNEST { alias, .. } => {
                self.has_others |= alias.as_ref().is_none_or(|alias| alias.columns.is_empty());
                self.add_alias(alias.as_ref());
            }
            TableFactor::Table { alias, .. }
            | TableFactor::Derived { alias, .. }
            | TableFactor::NestedJoin { alias, .. } => self.add_alias(alias.as_ref()),
            _ => self.has_others = true,
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Infallible> {
        match expr {
            Expr::Lambda(lambda) => match &lambda.params {
                OneOrManyWithParens::One(parameter) => self.add(&parameter.name),
                OneOrManyWithParens::Many(parameters) => {
                    parameters.iter().for_each(|parameter| self.add(&parameter.name));
                }
            },
            Expr::Named { name, .. } => self.add(name),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

struct Values {
    /// Variables whose names are no column's.
    bare: BTreeSet<String>,
    all: BTreeSet<String>,
}

impl Values {
    /// The variable that a name is.
    fn named(&self, expr: &Expr) -> Option<String> {
        let lower = |name: &Ident| name.value.to_lowercase();
        match expr {
            Expr::Identifier(name) => Some(lower(name)).filter(|name| self.bare.contains(name)),
            Expr::CompoundIdentifier(parts) => {
                let parts: Vec<String> = parts.iter().map(lower).collect();
                let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
                match parts.as_slice() {
                    ["session", name] | ["system", "session", name] => {
                        Some((*name).to_owned()).filter(|name| self.all.contains(name))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn value(name: &str) -> Expr {
        let name = Expr::value(Value::SingleQuotedString(name.to_owned()));
        function_call(Ident::new("getvariable"), [name])
    }
}

impl VisitorMut for Values {
    type Break = Infallible;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Infallible> {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) = item
                && let Some(name) = self.named(expr)
            {
                let alias = Ident::with_quote('"', name.as_str());
                *item = SelectItem::ExprWithAlias { expr: Self::value(&name), alias };
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Infallible> {
        if let Some(name) = self.named(expr) {
            *expr = Self::value(&name);
        }
        ControlFlow::Continue(())
    }
}

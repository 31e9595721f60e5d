//! A call of a defined function becomes the expression that the function stands for.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::execution::SessionState;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArgumentList, FunctionArguments, Ident, ObjectName, Visit, Visitor,
};
use yeoul_base::ErrorKind;

use super::macros::{Macro, Macros};
use super::{Definition, defined, is_of_engine, spark};
use crate::names::normalized;
use crate::parse::visit::each_expression;
use crate::{Error, Result};

/// Expressions that the calls of one statement may copy, where a function has an argument in its body more than once.
const COPIES_MAX: usize = 100_000;

/// Functions with another answer at each call.
const VOLATILE: [&str; 10] = [
    "file_row_index",
    "gen_random_uuid",
    "input_file_name",
    "rand",
    "random",
    "spark_rand",
    "spark_randn",
    "spark_randstr",
    "spark_uniform",
    "uuid",
];

/// The expansion of the calls of one statement.
#[derive(Debug)]
pub(crate) struct Expansion<'a> {
    state: &'a SessionState,
    copies: usize,
}

impl<'a> Expansion<'a> {
    /// That of a statement of this state, whose own functions come first.
    pub fn new(state: &'a SessionState) -> Self {
        Self { state, copies: 0 }
    }

    /// Writes a call as what it stands for. Calls within it are written so when they are visited in their turn.
    ///
    /// # Errors
    /// `Invalid` for other arguments or clauses than the function has, and for an argument that is needed more than once and has
    /// another value each time; `ResourceExhausted` for calls within calls that would be more than [`COPIES_MAX`].
    pub fn expand(&mut self, expr: &mut Expr) -> Result<()> {
        let Expr::Function(call) = expr else { return Ok(()) };
        let [part] = call.name.0.as_slice() else { return Ok(()) };
        let Some(name) = part.as_ident() else { return Ok(()) };
        if is_of_engine(&name.value.to_ascii_lowercase(), self.state) {
            return Ok(());
        }
        *expr = if let Some(of) = Macros::get(self.state, &normalized(name)) {
            self.expanded(call, &Callee::of_session(&of))?
        } else if let [first, ..] = defined(&name.value.to_ascii_lowercase()) {
            let number = match &call.args {
                FunctionArguments::List(list) => list.args.len(),
                // It is refused by that.
                FunctionArguments::Subquery(_) => return Ok(()),
                FunctionArguments::None => return Err(wrong_arguments(first)),
            };
            let has_so_many =
                |of: &&Definition| of.parameters.as_ref().is_none_or(|names| names.len() == number);
            let fitting = defined(first.name).iter().find(has_so_many).unwrap_or(first);
            let Some(callee) = Callee::of_table(fitting) else {
                call.name = ObjectName::from(vec![Ident::new(fitting.body)]);
                return Ok(());
            };
            self.expanded(call, &callee)?
        } else {
            return Ok(());
        };
        Ok(())
    }

    /// Writes a call of a function that has another meaning in Spark as what it stands for there.
    ///
    /// # Errors
    /// Those of [`expand`](Self::expand).
    pub fn expand_spark(&mut self, expr: &mut Expr) -> Result<()> {
        let Expr::Function(call) = expr else { return Ok(()) };
        let [part] = call.name.0.as_slice() else { return Ok(()) };
        let Some(name) = part.as_ident() else { return Ok(()) };
        let name = name.value.to_ascii_lowercase();
        let definitions = spark::defined(&name);
        let Some(first) = definitions.first() else { return Ok(()) };
        if matches!(call.args, FunctionArguments::None)
            && first.parameters.as_ref().is_some_and(Vec::is_empty)
        {
            call.args = FunctionArguments::List(FunctionArgumentList {
                duplicate_treatment: None,
                args: Vec::new(),
                clauses: Vec::new(),
            });
        }
        let FunctionArguments::List(list) = &call.args else { return Ok(()) };
        let number = list.args.len();
        let has_so_many = |of: &&Definition| of.parameters.as_ref().is_none_or(|names| names.len() == number);
        let fitting = definitions.iter().find(has_so_many);
        // With other numbers of arguments it may be one that all have.
        if fitting.is_none() && defined(&name).iter().any(|of| has_so_many(&of)) {
            return Ok(());
        }
        let fitting = fitting.unwrap_or(first);
        match Callee::of_table(fitting) {
            Some(callee) => *expr = self.expanded(call, &callee)?,
            None => call.name = ObjectName::from(vec![Ident::new(fitting.body)]),
        }
        Ok(())
    }

    fn expanded(&mut self, call: &mut Function, callee: &Callee<'_>) -> Result<Expr> {
        let FunctionArguments::List(list) = &mut call.args else { return Err(callee.wrong_call()) };
        let arguments: Option<Vec<Expr>> = list.args.iter().map(value_of).collect();
        let mut arguments = arguments.ok_or_else(|| callee.wrong_call())?;
        let missing = callee.parameters.len().checked_sub(arguments.len());
        let Some(defaults) = missing.and_then(|missing| callee.defaults.len().checked_sub(missing)) else {
            return Err(callee.wrong_call());
        };
        arguments.extend_from_slice(&callee.defaults[defaults..]);
        let mut body = callee.body.clone();
        // Clauses have columns of the statement, and come into the body only once its own names are arguments.
        self.put(&mut body, callee, callee.parameters.iter().copied().zip(arguments).collect())?;
        match callee.aggregate {
            Some(aggregate) => hand_over(call, aggregate, &mut body).ok_or_else(|| callee.wrong_clauses())?,
            None if has_clauses(call) => return Err(callee.wrong_clauses()),
            None => {}
        }
        Ok(Expr::Nested(Box::new(body)))
    }

    /// Puts arguments in the places of parameters.
    fn put(&mut self, body: &mut Expr, of: &Callee<'_>, arguments: HashMap<&str, Expr>) -> Result<()> {
        let mut uses: HashMap<&str, usize> = HashMap::new();
        for name in arguments.keys() {
            let mut count = 0;
            each_expression(body, &mut |expr| count += usize::from(is_named(expr, name)));
            uses.insert(*name, count);
        }
        for (name, argument) in &arguments {
            if uses[name] < 2 {
                continue;
            }
            let seen = Seen::of(argument);
            if let Some(volatile) = seen.volatile {
                let text = format!("not supported: {volatile}() within an argument of {}", of.name);
                let hint = format!(
                    "its value is needed more than once: compute it in a subquery, or write {}",
                    of.body
                );
                return Err(Error::new(ErrorKind::Invalid, text).with_hint(hint));
            }
            self.copies += seen.expressions * (uses[name] - 1);
            if self.copies > COPIES_MAX {
                let text =
                    format!("calls within calls of {} are more than {COPIES_MAX} expressions", of.name);
                return Err(Error::new(ErrorKind::ResourceExhausted, text)
                    .with_hint("compute the inner ones in a subquery"));
            }
        }
        each_expression(body, &mut |expr| {
            let Expr::Identifier(name) = expr else { return };
            if let Some(argument) = arguments.get(normalized(name).as_str()) {
                *expr = Expr::Nested(Box::new(argument.clone()));
            }
        });
        Ok(())
    }
}

fn value_of(argument: &FunctionArg) -> Option<Expr> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    }
}

fn is_named(expr: &Expr, name: &str) -> bool {
    matches!(expr, Expr::Identifier(found) if normalized(found) == name)
}

fn has_clauses(call: &Function) -> bool {
    let of_list = match &call.args {
        FunctionArguments::List(list) => list.duplicate_treatment.is_some() || !list.clauses.is_empty(),
        _ => false,
    };
    of_list
        || call.filter.is_some()
        || call.over.is_some()
        || call.null_treatment.is_some()
        || !call.within_group.is_empty()
}

/// Gives the clauses of a call to the aggregate in the body; `None` if it cannot have them.
fn hand_over(call: &mut Function, aggregate: &str, body: &mut Expr) -> Option<()> {
    let FunctionArguments::List(FunctionArgumentList { duplicate_treatment, args: _, clauses }) =
        &mut call.args
    else {
        return None;
    };
    let mut given = Some(());
    let is_whole = matches!(body, Expr::Function(_));
    each_expression(body, &mut |expr| {
        let Expr::Function(of) = expr else { return };
        if !of.name.to_string().eq_ignore_ascii_case(aggregate) {
            return;
        }
        let FunctionArguments::List(list) = &mut of.args else { return };
        let has_own_order = !of.within_group.is_empty() || !list.clauses.is_empty();
        let is_plain =
            is_whole && of.filter.is_none() && !has_own_order && list.duplicate_treatment.is_none();
        if (!clauses.is_empty() || !call.within_group.is_empty()) && has_own_order
            || duplicate_treatment.is_some() && !is_plain
            || call.null_treatment.is_some()
            // Over a window these two are functions of windows, without a filter.
            || call.over.is_some() && matches!(aggregate, "first_value" | "last_value")
        {
            given = None;
            return;
        }
        if duplicate_treatment.is_some() {
            list.duplicate_treatment = *duplicate_treatment;
        }
        list.clauses.append(clauses);
        if aggregate == "string_agg" && !call.within_group.is_empty() {
            let order = std::mem::take(&mut call.within_group);
            list.clauses.push(FunctionArgumentClause::OrderBy(order));
        }
        of.within_group.append(&mut call.within_group);
        of.over = of.over.take().or(call.over.take());
        of.filter = match (of.filter.take(), call.filter.take()) {
            (Some(own), Some(given)) => {
                let [left, right] = [own, given].map(|side| Box::new(Expr::Nested(side)));
                Some(Box::new(Expr::BinaryOp { left, op: BinaryOperator::And, right }))
            }
            (own, given) => own.or(given),
        };
    });
    given
}

fn wrong_arguments(definition: &Definition) -> Error {
    let text = format!("the function {} takes values", definition.name);
    Error::new(ErrorKind::Invalid, text).with_hint(format!("write {}", definition.signature()))
}

/// A function that is called, of the table or of the session.
struct Callee<'a> {
    name: &'a str,
    parameters: Vec<&'a str>,
    /// Values of the last parameters that a call may leave out.
    defaults: &'a [Expr],
    aggregate: Option<&'a str>,
    body: &'a Expr,
}

impl<'a> Callee<'a> {
    /// One of the table; `None` if it is another name of a function.
    fn of_table(definition: &'a Definition) -> Option<Self> {
        let parameters = definition.parameters.clone()?;
        let Definition { name, aggregate, expr: body, .. } = definition;
        Some(Self { name, parameters, defaults: &[], aggregate: *aggregate, body })
    }

    /// One of the session.
    fn of_session(of: &'a Macro) -> Self {
        let Macro { name, parameters, defaults, body } = of;
        let parameters = parameters.iter().map(String::as_str).collect();
        Self { name, parameters, defaults, aggregate: None, body }
    }

    fn wrong_call(&self) -> Error {
        let count = self.parameters.len();
        let s = if count == 1 { "" } else { "s" };
        let text = format!("the function {} takes {count} argument{s}", self.name);
        let hint = format!("write {}({})", self.name, self.parameters.join(", "));
        Error::new(ErrorKind::Invalid, text).with_hint(hint)
    }

    fn wrong_clauses(&self) -> Error {
        let text = format!("a clause that the function {} does not have", self.name);
        Error::new(ErrorKind::Invalid, text).with_hint(format!("it stands for {}", self.body))
    }
}

/// Contents of an expression that is to be copied.
#[derive(Default)]
pub(crate) struct Seen {
    /// Number of expressions in it, with itself.
    pub expressions: usize,
    /// Name of a function with another answer at each call.
    pub volatile: Option<String>,
}

impl Seen {
    /// Those of an expression.
    pub fn of(expr: &Expr) -> Self {
        let mut seen = Self::default();
        let _ = expr.visit(&mut seen);
        seen
    }
}

impl Visitor for Seen {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.expressions += 1;
        if let Expr::Function(call) = expr {
            let name = call.name.to_string().to_ascii_lowercase();
            if VOLATILE.contains(&name.as_str()) {
                self.volatile = Some(name);
            }
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use datafusion::execution::session_state::SessionStateBuilder;
    use datafusion::logical_expr::Volatility;

    use super::*;
    use crate::Dialect;
    use crate::functions::DEFINITIONS;
    use crate::parse::tests::{called, not_called};

    #[test]
    fn a_call_is_its_body_with_its_arguments() {
        for (written, expected) in [
            ("YEAR(t)", "(EXTRACT(YEAR FROM (t)))"),
            ("if(a > 1, b OR c, x)", "(CASE WHEN (a > 1) THEN (b OR c) ELSE (x) END)"),
            ("day(date_add(d, 1))", "(EXTRACT(DAY FROM (((d) + (1)))))"),
            ("list_value(1, year(t))", "make_array(1, (EXTRACT(YEAR FROM (t))))"),
            ("count_if(a) FILTER (WHERE b)", "(count(CASE WHEN (a) THEN 1 END) FILTER (WHERE b))"),
            (
                "max_by(a, b) FILTER (WHERE c)",
                "(last_value((a) ORDER BY (b)) FILTER (WHERE ((b) IS NOT NULL) AND (c)))",
            ),
            ("every(DISTINCT a) OVER (PARTITION BY b)", "(bool_and(DISTINCT (a)) OVER (PARTITION BY b))"),
            (
                "collect_list(a ORDER BY b)",
                "(coalesce(array_agg((a) ORDER BY b) FILTER (WHERE (a) IS NOT NULL), []))",
            ),
            ("listagg(a, '-') WITHIN GROUP (ORDER BY b)", "(string_agg((a), ('-') ORDER BY b))"),
            ("x.year(t)", "x.year(t)"),
        ] {
            assert_eq!(called(&format!("SELECT {written}")), format!("SELECT {expected}"), "{written}");
        }
    }

    #[test]
    fn other_arguments_and_clauses_are_refused() {
        for (written, words) in [
            ("year()", "takes 1 argument"),
            ("year(a, b)", "takes 1 argument"),
            ("if(a, b)", "takes 3 arguments"),
            ("size(*)", "takes 1 argument"),
            ("year(DISTINCT a)", "a clause that the function year does not have"),
            ("year(a) FILTER (WHERE b)", "a clause that the function year does not have"),
            ("lcase(a) OVER ()", "a clause that the function lcase does not have"),
            ("collect_list(DISTINCT a)", "a clause that the function collect_list does not have"),
            ("max_by(a, b ORDER BY c)", "a clause that the function max_by does not have"),
            ("max_by(a, b) OVER ()", "a clause that the function max_by does not have"),
            ("every(a) IGNORE NULLS", "a clause that the function every does not have"),
            ("pmod(random(), 3)", "random() within an argument of pmod"),
        ] {
            let error = not_called(&format!("SELECT {written}"));
            assert!(error.to_string().contains(words) && error.hint().is_some(), "{written}: {error}");
        }
    }

    #[test]
    fn calls_within_calls_have_a_limit() {
        let mut text = "a".to_owned();
        for _ in 0..20 {
            text = format!("pmod({text}, 7)");
        }
        let error = not_called(&format!("SELECT {text}"));
        assert!(error.kind() == ErrorKind::ResourceExhausted, "{error}");
    }

    #[test]
    fn all_volatile_functions_are_known() {
        let builder = SessionStateBuilder::new().with_default_features();
        let state = Dialect::default().session_state(builder, &[]).unwrap();
        for (name, function) in state.scalar_functions() {
            let is_volatile = function.signature().volatility == Volatility::Volatile;
            assert_eq!(is_volatile, VOLATILE.contains(&name.as_str()), "{name}");
        }
        for name in VOLATILE {
            assert!(state.scalar_functions().contains_key(name) || !defined(name).is_empty(), "{name}");
        }
    }

    #[test]
    fn the_aggregate_of_a_definition_is_in_its_body() {
        for definition in DEFINITIONS.iter() {
            let mut found = 0;
            each_expression(&mut definition.expr.clone(), &mut |expr| {
                let is_it = |name: &str| matches!(expr, Expr::Function(of) if of.name.to_string() == name);
                found += usize::from(definition.aggregate.is_some_and(is_it));
            });
            assert_eq!(found, usize::from(definition.aggregate.is_some()), "{}", definition.name);
        }
    }
}

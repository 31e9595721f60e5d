//! Calls of functions, and their windows.

use datafusion::sql::sqlparser::ast::{
    DuplicateTreatment, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArgumentList,
    FunctionArguments, Ident, NamedWindowDefinition, NamedWindowExpr, NullTreatment, ObjectName, WindowFrame,
    WindowFrameBound, WindowSpec, WindowType,
};

use yeoul_base::ErrorKind;

use super::refused::{Clause, absent};
use super::walk::Walk;
use crate::names::normalized;
use crate::{Error, Result};

/// Functions that take `IGNORE NULLS` and `RESPECT NULLS` to heart.
const WITH_NULL_TREATMENT: [&str; 6] = ["array_agg", "first_value", "lag", "last_value", "lead", "nth_value"];

/// Aggregates that are other functions with `OVER`.
const WINDOW_FIRST: [&str; 3] = ["first_value", "last_value", "nth_value"];

/// What a name stands for in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A function of one row, or one that is not known.
    Plain,
    Aggregate,
    /// A window function that is no aggregate.
    Window,
}

/// The parts of a call beside its arguments.
struct Said {
    is_over: bool,
    is_distinct: bool,
    is_ordered: bool,
    nulls: Option<NullTreatment>,
}

/// Refuses a type that only `arrow_cast` can name, and by which DataFusion divides by zero.
fn check_arrow_type(name: &ObjectName, args: &FunctionArguments) -> Result<()> {
    let name = name.to_string().to_ascii_lowercase();
    let FunctionArguments::List(list) = args else { return Ok(()) };
    let has_negative_scale =
        |arg: &FunctionArg| arg.to_string().split_once("Decimal").is_some_and(|(_, rest)| rest.contains('-'));
    if matches!(name.as_str(), "arrow_cast" | "arrow_try_cast")
        && list.args.iter().skip(1).any(has_negative_scale)
    {
        let text = format!("not supported: a decimal with a negative scale, in {name}");
        return Err(Error::new(ErrorKind::Invalid, text).with_hint("round it: round(x, -2)"));
    }
    Ok(())
}

/// Refuses `position` with commas: Spark looks for the first argument in the second, others have none.
fn check_position(name: &ObjectName) -> Result<()> {
    if name.to_string().eq_ignore_ascii_case("position") {
        let text = "not supported: position(a, b), which systems read in two ways";
        return Err(
            Error::new(ErrorKind::Invalid, text).with_hint("position('b' IN 'abc'), or strpos('abc', 'b')")
        );
    }
    Ok(())
}

impl Walk<'_> {
    pub(super) fn function(&mut self, function: &mut Function) -> Result<()> {
        let Function {
            name,
            uses_odbc_syntax: _,
            parameters,
            args,
            filter,
            null_treatment,
            over,
            within_group,
        } = function;
        absent(parameters, Clause::FunctionParameters)?;
        check_arrow_type(name, args)?;
        check_position(name)?;
        let mut said =
            Said { is_over: over.is_some(), nulls: *null_treatment, is_distinct: false, is_ordered: false };
        match args {
            FunctionArguments::None => {}
            FunctionArguments::Subquery(query) => {
                return Err(Clause::SubqueryArgument.error_at(query.as_ref()));
            }
            FunctionArguments::List(list) => self.argument_list(list, &mut said)?,
        }
        let kind = self.kind_of(name, said.is_over);
        if kind != Kind::Aggregate {
            absent(filter, Clause::PlainFilter)?;
            absent(within_group, Clause::PlainWithin)?;
        }
        check(name, kind, &said)?;
        filter.as_mut().map_or(Ok(()), |filter| self.expr(filter))?;
        self.sort_keys(within_group)?;
        match over {
            Some(WindowType::NamedWindow(window)) => {
                let mut spec = self.window_named(window)?;
                self.window(&mut spec)?;
                *over = Some(WindowType::WindowSpec(spec));
                Ok(())
            }
            Some(WindowType::WindowSpec(spec)) => self.window(spec),
            None => Ok(()),
        }
    }

    fn kind_of(&self, name: &ObjectName, is_over: bool) -> Kind {
        let name = last_name(name);
        if is_over && WINDOW_FIRST.contains(&name.as_str()) {
            return Kind::Window;
        }
        let state = self.state;
        // In the order in which planning looks for it.
        if state.scalar_functions().contains_key(&name) || state.higher_order_functions().contains_key(&name)
        {
            Kind::Plain
        } else if state.aggregate_functions().contains_key(&name) {
            Kind::Aggregate
        } else if state.window_functions().contains_key(&name) {
            Kind::Window
        } else {
            Kind::Plain
        }
    }

    fn argument_list(&mut self, list: &mut FunctionArgumentList, said: &mut Said) -> Result<()> {
        let FunctionArgumentList { duplicate_treatment, args, clauses } = list;
        said.is_distinct = match duplicate_treatment {
            Some(DuplicateTreatment::Distinct) => true,
            Some(DuplicateTreatment::All) | None => false,
        };
        self.arguments(args)?;
        clauses.iter_mut().try_for_each(|clause| match clause {
            FunctionArgumentClause::IgnoreOrRespectNulls(nulls) => {
                said.nulls = Some(*nulls);
                Ok(())
            }
            FunctionArgumentClause::OrderBy(keys) => {
                said.is_ordered = true;
                self.sort_keys(keys)
            }
            // Planning refuses those, unless the function is a plain one.
            FunctionArgumentClause::Limit(_)
            | FunctionArgumentClause::OnOverflow(_)
            | FunctionArgumentClause::Having(_)
            | FunctionArgumentClause::Separator(_)
            | FunctionArgumentClause::JsonNullClause(_)
            | FunctionArgumentClause::JsonReturningClause(_) => Ok(()),
        })
    }

    pub(super) fn arguments(&mut self, args: &mut [FunctionArg]) -> Result<()> {
        args.iter_mut().try_for_each(|arg| match arg {
            FunctionArg::Named { name: _, arg, operator: _ }
            // Planning refuses an expression as a name.
            | FunctionArg::ExprNamed { name: _, arg, operator: _ }
            | FunctionArg::Unnamed(arg) => match arg {
                FunctionArgExpr::Expr(expr) => self.expr(expr),
                FunctionArgExpr::QualifiedWildcard(_)
                | FunctionArgExpr::Wildcard
                // Planning refuses it.
                | FunctionArgExpr::WildcardWithOptions(_) => Ok(()),
            },
        })
    }

    /// The window of this name, of the `WINDOW` clause of the `SELECT`. DataFusion finds it for its columns only: in `ORDER BY` and
    /// `QUALIFY` it would take the function for an aggregate.
    fn window_named(&self, name: &Ident) -> Result<WindowSpec> {
        let mut wanted = name;
        // A window may have the name of another; a cycle ends after as many steps as there are windows.
        for _ in 0..=self.windows.len() {
            let is_it = |window: &&NamedWindowDefinition| normalized(&window.0) == normalized(wanted);
            match self.windows.iter().find(is_it) {
                Some(NamedWindowDefinition(_, NamedWindowExpr::NamedWindow(other))) => wanted = other,
                Some(NamedWindowDefinition(_, NamedWindowExpr::WindowSpec(spec))) => return Ok(spec.clone()),
                None => break,
            }
        }
        Err(Clause::WindowUnknown.error_at_name(name))
    }

    pub(super) fn window(&mut self, window: &mut WindowSpec) -> Result<()> {
        // A cycle of names ends like one of `window_named`.
        for _ in 0..=self.windows.len() {
            let Some(name) = window.window_name.take() else { break };
            let WindowSpec { window_name, partition_by, order_by, window_frame } =
                self.window_named(&name)?;
            let says_again = !window.partition_by.is_empty()
                || window_frame.is_some()
                || (!order_by.is_empty() && !window.order_by.is_empty());
            if says_again {
                return Err(Clause::WindowRefined.error_at_name(&name));
            }
            window.window_name = window_name;
            window.partition_by = partition_by;
            if !order_by.is_empty() {
                window.order_by = order_by;
            }
        }
        let WindowSpec { window_name, partition_by, order_by, window_frame } = window;
        if let Some(name) = window_name {
            return Err(Clause::WindowUnknown.error_at_name(name));
        }
        self.exprs(partition_by)?;
        self.sort_keys(order_by)?;
        match window_frame {
            Some(WindowFrame { units: _, start_bound, end_bound }) => {
                self.frame_bound(start_bound)?;
                end_bound.as_mut().map_or(Ok(()), |bound| self.frame_bound(bound))
            }
            None => Ok(()),
        }
    }

    fn frame_bound(&mut self, bound: &mut WindowFrameBound) -> Result<()> {
        match bound {
            WindowFrameBound::Preceding(Some(distance)) | WindowFrameBound::Following(Some(distance)) => {
                // `3` is a number of rows, or of the key's units.
                self.expr(distance)
            }
            WindowFrameBound::CurrentRow
            | WindowFrameBound::Preceding(None)
            | WindowFrameBound::Following(None) => Ok(()),
        }
    }
}

/// Refuses what planning would leave out of a call.
fn check(name: &ObjectName, kind: Kind, said: &Said) -> Result<()> {
    let refused = |clause: Clause| Err(clause.error_at(name));
    let called = last_name(name);
    if said.is_over && kind == Kind::Plain {
        return refused(Clause::PlainOver);
    }
    if said.is_distinct && kind != Kind::Aggregate {
        return refused(Clause::PlainDistinct);
    }
    if said.is_ordered && kind == Kind::Plain {
        return refused(Clause::PlainOrder);
    }
    let heeds_nulls =
        WITH_NULL_TREATMENT.contains(&called.as_str()) && (kind == Kind::Window || !said.is_over);
    match said.nulls {
        // Other aggregates leave nulls out anyway.
        Some(NullTreatment::IgnoreNulls) if kind != Kind::Aggregate && !heeds_nulls => {
            return refused(Clause::PlainNulls);
        }
        Some(NullTreatment::RespectNulls) if !heeds_nulls => return refused(Clause::PlainNulls),
        Some(NullTreatment::IgnoreNulls | NullTreatment::RespectNulls) | None => {}
    }
    if said.is_distinct && ignores_distinct(&called) {
        return refused(Clause::DistinctIgnored);
    }
    if said.is_ordered && called == "any_value" {
        return refused(Clause::OrderIgnored);
    }
    Ok(())
}

/// True if an aggregate counts equal values although it is told not to. DataFusion refuses that of some others itself.
fn ignores_distinct(name: &str) -> bool {
    let prefixes = ["approx_percentile_cont", "corr", "covar", "kll_", "nth_value", "regr_"];
    prefixes.iter().any(|prefix| name.starts_with(prefix))
}

fn last_name(name: &ObjectName) -> String {
    let last = name.0.last().and_then(|part| part.as_ident());
    last.map(normalized).unwrap_or_default()
}

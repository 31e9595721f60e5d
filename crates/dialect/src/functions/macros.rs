//! Functions that a session defines by an expression: `CREATE MACRO f(x) AS x + 1`, as in DuckDB, and `CREATE FUNCTION f(x INT) RETURNS INT
//! RETURN x + 1`, as in Spark and PostgreSQL. A call becomes the expression, as one of a [`Definition`](super::Definition) does.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::execution::SessionState;
use datafusion::sql::sqlparser::ast::{
    CastKind, CreateFunction, CreateFunctionBody, DataType, DropFunction, Expr, FunctionReturnType, Ident,
    MacroArg, MacroDefinition, ObjectName, OperateFunctionArg, Statement,
};
use yeoul_base::ErrorKind;

use super::{defined, is_of_engine};
use crate::names::free_names::each_free_name;
use crate::names::normalized;
use crate::parse::visit::each_expression;
use crate::{Error, Result};

/// Functions that one session may define.
const MACROS_MAX: usize = 10_000;

/// The functions of a session, by their names. They are an extension of its configuration.
#[derive(Debug, Default)]
pub(crate) struct Macros(Mutex<BTreeMap<String, Arc<Macro>>>);

/// A function of a session.
#[derive(Debug)]
pub(crate) struct Macro {
    /// Name, in small letters unless it was quoted.
    pub name: String,
    /// Names of its arguments.
    pub parameters: Vec<String>,
    /// Values of the last of them where a call leaves them out.
    pub defaults: Vec<Expr>,
    /// What it stands for.
    pub body: Expr,
}

impl Macros {
    /// Those of a session.
    fn of(state: &SessionState) -> Option<Arc<Self>> {
        state.config().get_extension()
    }

    /// The function of a name.
    pub fn get(state: &SessionState, name: &str) -> Option<Arc<Macro>> {
        Self::of(state)?.lock().get(name).cloned()
    }

    /// All of a session, in the order of their names.
    pub fn all(state: &SessionState) -> Vec<Arc<Macro>> {
        Self::of(state).map(|macros| macros.lock().values().cloned().collect()).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Macro>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Carries out a statement that defines or drops a function of the session. False for any other.
///
/// # Errors
/// `Conflict` for a name that is a function's; `NotFound` for one to drop that is not there; `Invalid` for what is no expression of
/// the arguments, and for clauses that are not honoured.
pub(crate) fn carry_out(statement: &Statement, state: &SessionState) -> Result<bool> {
    match statement {
        Statement::CreateMacro { or_replace, temporary: _, name, args, definition } => {
            let MacroDefinition::Expr(body) = definition else {
                return Err(refused("CREATE MACRO … AS TABLE", "CREATE VIEW name AS SELECT …"));
            };
            let arguments = args.iter().flatten().map(|MacroArg { name, default_expr }| {
                Ok(Argument { name: name.clone(), data_type: None, default: default_expr.clone() })
            });
            let arguments = arguments.collect::<Result<Vec<_>>>()?;
            define(name, arguments, body.clone(), [*or_replace, false], state)
        }
        Statement::CreateFunction(function) => create_function(function, state),
        Statement::DropFunction(DropFunction { if_exists, func_desc, drop_behavior: _ }) => {
            let [function] = func_desc.as_slice() else { return Ok(false) };
            let name = name_of(&function.name)?;
            let removed = Macros::of(state).and_then(|macros| macros.lock().remove(&name));
            match (removed, if_exists) {
                (Some(_), _) | (None, true) => Ok(true),
                (None, false) => Err(no_function(&name, state)),
            }
        }
        _ => Ok(false),
    }
}

struct Argument {
    name: Ident,
    data_type: Option<DataType>,
    default: Option<Expr>,
}

fn create_function(function: &CreateFunction, state: &SessionState) -> Result<bool> {
    let CreateFunction {
        or_alter,
        or_replace,
        temporary: _,
        if_not_exists,
        name,
        args,
        return_type,
        function_body,
        // What the expression is follows from it.
        behavior: _,
        called_on_null,
        parallel: _,
        security,
        set_params,
        using,
        language,
        determinism_specifier: _,
        options,
        remote_connection,
    } = function;
    let is_sql = language.as_ref().is_none_or(|language| language.value.eq_ignore_ascii_case("sql"));
    let has_others = called_on_null.is_some()
        || security.is_some()
        || !set_params.is_empty()
        || using.is_some()
        || options.is_some()
        || remote_connection.is_some()
        || *or_alter;
    let body = match function_body {
        Some(CreateFunctionBody::Return(body) | CreateFunctionBody::AsReturnExpr(body))
            if is_sql && !has_others =>
        {
            body
        }
        _ => {
            return Err(refused(
                "CREATE FUNCTION with something else than RETURN of an expression",
                "CREATE FUNCTION f(x INT) RETURNS INT RETURN x + 1",
            ));
        }
    };
    let arguments = args.iter().flatten().map(|argument| {
        let OperateFunctionArg { mode, name, data_type, default_expr } = argument;
        match (mode, name) {
            (None, Some(name)) => Ok(Argument {
                name: name.clone(),
                data_type: Some(data_type.clone()),
                default: default_expr.clone(),
            }),
            _ => Err(refused("an argument without a name, or with IN or OUT", "f(x INT)")),
        }
    });
    let arguments = arguments.collect::<Result<Vec<_>>>()?;
    let body = match return_type {
        None => body.clone(),
        Some(FunctionReturnType::DataType(data_type)) => cast(body.clone(), data_type.clone()),
        Some(_) => return Err(refused("a function that returns a table or a set", "CREATE VIEW")),
    };
    define(name, arguments, body, [*or_replace, *if_not_exists], state)
}

/// Defines a function. `or_replace` lets it take the place of another one, `if_not_exists` the other one stay.
fn define(
    name: &ObjectName,
    arguments: Vec<Argument>,
    mut body: Expr,
    [or_replace, if_not_exists]: [bool; 2],
    state: &SessionState,
) -> Result<bool> {
    let name = name_of(name)?;
    let mut parameters = Vec::with_capacity(arguments.len());
    let mut defaults = Vec::new();
    for Argument { name, data_type, default } in arguments {
        match default {
            Some(default) => defaults.push(default),
            None if defaults.is_empty() => {}
            None => {
                return Err(refused("an argument without a default behind one with it", "the defaults last"));
            }
        }
        if let Some(data_type) = data_type {
            each_expression(&mut body, &mut |expr| {
                if is_name(expr, &normalized(&name)) {
                    *expr = cast(expr.clone(), data_type.clone());
                }
            });
        }
        parameters.push(normalized(&name));
    }
    check_names(&name, &parameters, &mut body)?;
    let macros = Macros::of(state).ok_or_else(|| {
        Error::new(ErrorKind::Invalid, "not supported: functions of a session, where there is no session")
    })?;
    let mut macros = macros.lock();
    if is_of_engine(&name, state) || !defined(&name).is_empty() {
        let text = format!("the function {name} is there already");
        return Err(Error::new(ErrorKind::Conflict, text).with_hint("choose another name"));
    }
    match macros.len() {
        _ if macros.contains_key(&name) && if_not_exists => return Ok(true),
        _ if macros.contains_key(&name) && !or_replace => {
            let text = format!("the function {name} is there already");
            return Err(Error::new(ErrorKind::Conflict, text).with_hint("write CREATE OR REPLACE"));
        }
        MACROS_MAX.. => {
            let text = format!("a session has at most {MACROS_MAX} functions of its own");
            return Err(Error::new(ErrorKind::ResourceExhausted, text).with_hint("DROP FUNCTION name"));
        }
        _ => {}
    }
    macros.insert(name.clone(), Arc::new(Macro { name, parameters, defaults, body }));
    Ok(true)
}

/// Refuses an expression that names something else than the arguments: it would be a column of whoever calls the function.
fn check_names(function: &str, parameters: &[String], body: &mut Expr) -> Result<()> {
    let mut names = HashSet::new();
    if let Some(twice) = parameters.iter().find(|name| !names.insert(name.as_str())) {
        let text = format!("the function {function} has two arguments '{twice}'");
        return Err(Error::new(ErrorKind::Invalid, text).with_hint("give each a name of its own"));
    }
    let mut has_others = false;
    each_expression(body, &mut |expr| {
        has_others |= matches!(
            expr,
            Expr::CompoundIdentifier(_) | Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. }
        );
    });
    if has_others {
        // They would be read where the function is called, among other tables.
        return Err(refused("a query or a table's column within a function", "the value as an argument"));
    }
    let mut unknown = None;
    each_free_name(body, &mut |_, name| {
        if !names.contains(name) {
            unknown.get_or_insert_with(|| name.to_owned());
        }
    });
    match unknown {
        None => Ok(()),
        Some(name) => {
            let text = format!("the function {function} has no argument '{name}'");
            Err(Error::new(ErrorKind::Invalid, text)
                .with_hint(format!("the arguments are {}", parameters.join(", "))))
        }
    }
}

fn is_name(expr: &Expr, name: &str) -> bool {
    matches!(expr, Expr::Identifier(found) if normalized(found) == name)
}

fn cast(expr: Expr, data_type: DataType) -> Expr {
    let expr = Box::new(Expr::Nested(Box::new(expr)));
    Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None }
}

fn name_of(name: &ObjectName) -> Result<String> {
    match name.0.as_slice() {
        [part] => part.as_ident().map(normalized),
        _ => None,
    }
    .ok_or_else(|| refused("a function in a schema", "a name alone"))
}

fn no_function(name: &str, state: &SessionState) -> Error {
    if is_of_engine(name, state) || !defined(name).is_empty() {
        let text = format!("the function {name} is no function of the session");
        return Error::new(ErrorKind::Invalid, text).with_hint("what CREATE FUNCTION made can be dropped");
    }
    Error::new(ErrorKind::NotFound, format!("there is no function {name} of the session"))
}

fn refused(what: &str, instead: &str) -> Error {
    Error::new(ErrorKind::Invalid, format!("not supported: {what}"))
        .with_hint(format!("write instead: {instead}"))
}

#[cfg(test)]
mod tests {
    use datafusion::execution::session_state::SessionStateBuilder;

    use super::*;
    use crate::Dialect;

    fn state() -> SessionState {
        Dialect::default().session_state(SessionStateBuilder::new().with_default_features(), &[]).unwrap()
    }

    /// Carries out a definition, as a front does.
    fn run(sql: &str, state: &SessionState) -> Result<bool> {
        let dialect = Dialect::default();
        let mut statement = dialect.read(sql, state)?;
        dialect.honour(&mut statement, state)?;
        match &statement {
            crate::syntax::Statement::Statement(statement) => carry_out(statement, state),
            _ => Ok(false),
        }
    }

    /// A query whose calls are what they stand for.
    fn called(sql: &str, state: &SessionState) -> Result<String> {
        let dialect = Dialect::default();
        let mut statement = dialect.read(sql, state)?;
        dialect.honour(&mut statement, state)?;
        Ok(statement.to_string())
    }

    #[test]
    fn a_call_is_the_expression_that_the_session_gave_it() {
        let state = state();
        assert!(run("CREATE MACRO twice(x) AS x * 2", &state).unwrap());
        assert!(
            run("CREATE FUNCTION add(x INT, y INT DEFAULT 1) RETURNS BIGINT RETURN x + y", &state).unwrap()
        );
        assert!(run("CREATE TEMP MACRO four(x) AS twice(twice(x))", &state).unwrap());
        for (written, expected) in [
            ("twice(a + 1)", "((a + 1) * 2)"),
            ("four(a)", "((((((a)) * 2)) * 2))"),
            ("add(a, 3)", "(CAST((CAST(((a)) AS INT) + CAST(((3)) AS INT)) AS BIGINT))"),
            ("add(a)", "(CAST((CAST(((a)) AS INT) + CAST(((1)) AS INT)) AS BIGINT))"),
        ] {
            assert_eq!(called(&format!("SELECT {written}"), &state).unwrap(), format!("SELECT {expected}"));
        }
        assert!(run("DROP FUNCTION twice", &state).unwrap());
        assert_eq!(called("SELECT twice(1)", &state).unwrap(), "SELECT twice(1)");
        // It stands for what it was made of.
        assert_eq!(called("SELECT four(a)", &state).unwrap(), "SELECT ((((((a)) * 2)) * 2))");
    }

    #[test]
    fn what_is_no_expression_of_its_arguments_is_refused() {
        let state = state();
        run("CREATE MACRO f(x) AS x", &state).unwrap();
        for (written, kind) in [
            ("CREATE MACRO f(x) AS x + 1", ErrorKind::Conflict),
            ("CREATE MACRO upper(x) AS x", ErrorKind::Conflict),
            ("CREATE MACRO year(x) AS x", ErrorKind::Conflict),
            ("CREATE MACRO g(x) AS y", ErrorKind::Invalid),
            ("CREATE MACRO g(x) AS x.a", ErrorKind::Invalid),
            ("CREATE MACRO g(x) AS (SELECT x)", ErrorKind::Invalid),
            ("CREATE MACRO g(x, x) AS x", ErrorKind::Invalid),
            ("CREATE MACRO g(x) AS TABLE SELECT x", ErrorKind::Invalid),
            ("CREATE FUNCTION g(x INT) RETURNS INT AS 'lib.so'", ErrorKind::Invalid),
            ("CREATE FUNCTION g(x INT) RETURNS INT LANGUAGE PYTHON RETURN x", ErrorKind::Invalid),
            ("CREATE FUNCTION g(x INT DEFAULT 1, y INT) RETURNS INT RETURN x", ErrorKind::Invalid),
            ("DROP FUNCTION g", ErrorKind::NotFound),
            ("DROP FUNCTION upper", ErrorKind::Invalid),
        ] {
            assert_eq!(run(written, &state).unwrap_err().kind(), kind, "{written}");
        }
        assert!(run("CREATE OR REPLACE MACRO f(x) AS x + 1", &state).unwrap());
        assert_eq!(called("SELECT f(a)", &state).unwrap(), "SELECT ((a) + 1)");
        assert!(called("SELECT f()", &state).unwrap_err().hint().is_some_and(|hint| hint.contains("f(x)")));
    }
}

use super::engine::Engine;

/// The names of the session that completion offers: a copy, because the line editor cannot wait for a catalog.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    /// Tables with their columns, sorted.
    pub(super) tables: Vec<(String, Vec<String>)>,
    /// Functions, sorted.
    pub(super) functions: Vec<String>,
}

impl Names {
    /// The most tables whose names are copied.
    const TABLES_MAX: usize = 1_000;
    /// The most columns that are copied, over all tables.
    const COLUMNS_MAX: usize = 50_000;

    /// Asks the engine. Catalogs and tables that cannot be read are left out, without an error.
    pub(super) async fn read<E: Engine>(engine: &E) -> Self {
        let mut names = Self { tables: Vec::new(), functions: engine.functions() };
        names.functions.sort_unstable();
        let mut columns_left = Self::COLUMNS_MAX;
        for name in engine.tables().await.unwrap_or_default().into_iter().take(Self::TABLES_MAX) {
            let mut columns = Vec::new();
            if columns_left > 0 {
                let infos = engine.columns(&name).await.unwrap_or_default();
                columns.extend(infos.into_iter().take(columns_left).map(|column| column.name));
                columns_left -= columns.len();
            }
            names.tables.push((name, columns));
        }
        names
    }
}

/// Whether a statement may change what [`Names`] holds.
pub(super) fn may_change_names(sql: &str) -> bool {
    let word = sql.trim_start().split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    !["select", "with", "explain", "show", "values", "describe", "copy", "insert", "set"]
        .iter()
        .any(|quiet| word.eq_ignore_ascii_case(quiet))
}

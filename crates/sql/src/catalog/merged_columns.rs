use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema};
use datafusion::arrow::error::ArrowError;
use yeoul_base::ErrorKind;
use yeoul_dialect::type_name;

use super::files::shown;
use crate::{Error, Result};

/// The columns of a table whose files are matched by column name, added file by file.
///
/// Files form one table if one of them has all columns; the others may lack some, which are null in their rows.
#[derive(Debug, Default)]
pub(super) struct MergedColumns {
    columns: Vec<Merged>,
    /// The index in `columns` of a name.
    places: HashMap<String, usize>,
    /// Files added so far.
    files: usize,
    /// How many columns the widest file has, and that file; the first if several have as many.
    widest: Option<(usize, Arc<File>)>,
    metadata: HashMap<String, String>,
}

#[derive(Debug)]
struct File {
    location: String,
    columns: Schema,
}

impl File {
    fn has(&self, column: &str) -> bool {
        self.columns.column_with_name(column).is_some()
    }
}

#[derive(Debug)]
struct Merged {
    field: Field,
    /// The first file that has it.
    first: Arc<File>,
    /// How many files have it.
    files: usize,
    /// The number of the last file that has it, to count each file once: a file may have two columns of one name.
    last: usize,
}

impl MergedColumns {
    /// Adds the columns of the next file.
    ///
    /// # Errors
    /// `Invalid` for a column that has another type in an earlier file.
    pub(super) fn add(&mut self, location: &str, columns: Schema) -> Result<()> {
        self.files += 1;
        let file = Arc::new(File { location: location.to_owned(), columns });
        let mut names = 0;
        for field in file.columns.fields() {
            let place = *self.places.entry(field.name().clone()).or_insert(self.columns.len());
            let Some(known) = self.columns.get_mut(place) else {
                let field = field.as_ref().clone();
                self.columns.push(Merged { field, first: Arc::clone(&file), files: 1, last: self.files });
                names += 1;
                continue;
            };
            if known.last < self.files {
                (known.files, known.last) = (known.files + 1, self.files);
                names += 1;
            }
            if known.field != **field {
                known.field =
                    both(&known.field, field).map_err(|error| known.differs(field, location, error))?;
            }
        }
        for (key, value) in file.columns.metadata() {
            self.metadata.entry(key.clone()).or_insert_with(|| value.clone());
        }
        if self.widest.as_ref().is_none_or(|(most, _)| names > *most) {
            self.widest = Some((names, file));
        }
        Ok(())
    }

    /// The columns of all files.
    ///
    /// # Errors
    /// `Invalid` if no file has all columns; names two files, and for each a column that only it has.
    pub(super) fn finish(self) -> Result<Schema> {
        if let Some((_, widest)) = &self.widest {
            let names: HashSet<&String> = widest.columns.fields().iter().map(|field| field.name()).collect();
            if let Some(other) = self.columns.iter().find(|column| !names.contains(column.field.name())) {
                return Err(not_one_table(widest, other));
            }
        }
        Ok(self.united())
    }

    /// The columns of all files, of which none has to have all.
    pub(super) fn united(self) -> Schema {
        let field = |column: Merged| {
            let nullable = column.field.is_nullable() || column.files < self.files;
            column.field.with_nullable(nullable)
        };
        let fields = self.columns.into_iter().map(field).collect::<Vec<_>>();
        Schema::new_with_metadata(fields, self.metadata)
    }
}

impl Merged {
    fn differs(&self, field: &Field, location: &str, source: ArrowError) -> Error {
        let (one, other) = (type_name(self.field.data_type()), type_name(field.data_type()));
        // Types that look alike may differ in what is noted about the column.
        let why = if one == other { format!(": {source}") } else { String::new() };
        let what = format!(
            "column '{}' is {one} in '{}' and {other} in '{}'{why}",
            field.name(),
            shown(&self.first.location),
            shown(location),
        );
        Error::new(ErrorKind::Invalid, what)
            .with_hint("read them apart, or name those that belong together with a glob")
            .with_source(source)
    }
}

/// Merges two files' fields of one name. A struct member that one of them lacks becomes nullable.
fn both(one: &Field, other: &Field) -> Result<Field, ArrowError> {
    let mut merged = one.clone();
    merged.try_merge(other)?;
    Ok(with_gaps(merged, one, other))
}

fn with_gaps(merged: Field, one: &Field, other: &Field) -> Field {
    let data_type = match (merged.data_type(), one.data_type(), other.data_type()) {
        (DataType::Struct(parts), DataType::Struct(ones), DataType::Struct(others)) => {
            let part = |part: &FieldRef| {
                let of = |parts: &Fields| parts.find(part.name()).map(|(_, part)| Arc::clone(part));
                Arc::new(match (of(ones), of(others)) {
                    (Some(one), Some(other)) => with_gaps(part.as_ref().clone(), &one, &other),
                    _ => part.as_ref().clone().with_nullable(true),
                })
            };
            DataType::Struct(parts.iter().map(part).collect())
        }
        (DataType::List(item), DataType::List(one), DataType::List(other)) => {
            DataType::List(Arc::new(with_gaps(item.as_ref().clone(), one, other)))
        }
        (DataType::LargeList(item), DataType::LargeList(one), DataType::LargeList(other)) => {
            DataType::LargeList(Arc::new(with_gaps(item.as_ref().clone(), one, other)))
        }
        _ => return merged,
    };
    merged.with_data_type(data_type)
}

fn not_one_table(widest: &File, other: &Merged) -> Error {
    // There is one: the other file has no more columns than this one, and one that this one lacks.
    let own = widest.columns.fields().iter().find(|field| !other.first.has(field.name()));
    let what = format!(
        "'{}' and '{}' are not of one table: only the first has '{}', only the second '{}'",
        shown(&widest.location),
        shown(&other.first.location),
        own.map_or("", |field| field.name()),
        other.field.name(),
    );
    let hint = "read them apart, and put them together with UNION ALL BY NAME; a file may lack columns of another, not both of each other";
    Error::new(ErrorKind::Invalid, what).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The merged columns of files; each column is written as `name`, or `name?` if nullable.
    fn merged(files: &[&[&str]]) -> Result<String> {
        let mut columns = MergedColumns::default();
        for (number, names) in files.iter().enumerate() {
            let field =
                |name: &&str| Field::new(name.trim_end_matches('?'), DataType::Int64, name.ends_with('?'));
            columns.add(&format!("d/{number}"), Schema::new(names.iter().map(field).collect::<Vec<_>>()))?;
        }
        let told = columns.finish()?;
        let name =
            |field: &FieldRef| format!("{}{}", field.name(), if field.is_nullable() { "?" } else { "" });
        Ok(told.fields().iter().map(name).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn what_one_file_has_all_of_is_one_table() {
        let cases: [(&[&[&str]], &str); 6] = [
            (&[&["a", "b?"], &["a", "b"]], "a b?"),
            (&[&["a"], &["b", "a"], &["a"]], "a b?"),
            (&[&["a", "b"], &["b"], &[]], "a? b?"),
            (&[&["a", "a"], &["b", "a"]], "a b?"),
            (&[&[]], ""),
            (&[], ""),
        ];
        for (files, told) in cases {
            assert_eq!(merged(files).unwrap(), told, "{files:?}");
        }
    }

    #[test]
    fn what_no_file_has_all_of_is_not() {
        let cases: [(&[&[&str]], [&str; 4]); 3] = [
            (&[&["a", "b"], &["c"]], ["0", "1", "a", "c"]),
            (&[&["c"], &["a"], &["a", "b"]], ["2", "0", "a", "c"]),
            (&[&["id", "n"], &["id", "m"]], ["0", "1", "n", "m"]),
        ];
        for (files, [one, other, first, second]) in cases {
            let error = merged(files).unwrap_err();
            assert!(error.kind() == ErrorKind::Invalid && error.hint().is_some(), "{files:?}");
            let told = format!(
                "'{one}' and '{other}' are not of one table: only the first has '{first}', only the second '{second}'"
            );
            assert_eq!(error.to_string(), told);
        }
    }

    #[test]
    fn a_part_that_a_file_lacks_may_be_null() {
        let of = |parts: &[&str]| {
            let part = |name: &&str| Field::new(*name, DataType::Int64, false);
            let item = Field::new_struct("item", parts.iter().map(part).collect::<Vec<_>>(), false);
            Schema::new(vec![Field::new_list("l", Field::new_struct("s", vec![item], false), false)])
        };
        let mut columns = MergedColumns::default();
        for (location, parts) in [("a", &["x"][..]), ("b", &["x", "y"]), ("c", &["y"])] {
            columns.add(location, of(parts)).unwrap();
        }
        let told = columns.finish().unwrap();
        let DataType::List(item) = told.field(0).data_type() else { panic!("{told}") };
        let DataType::Struct(parts) = item.data_type() else { panic!("{told}") };
        let DataType::Struct(parts) = parts[0].data_type() else { panic!("{told}") };
        assert!(parts.iter().all(|part| part.is_nullable()) && parts.len() == 2, "{told}");
        assert!(!told.field(0).is_nullable() && !item.is_nullable());
    }

    #[test]
    fn a_column_of_two_types_is_named_with_both() {
        let of = |data_type| Schema::new(vec![Field::new("n", data_type, false)]);
        let mut columns = MergedColumns::default();
        columns.add("d/a", of(DataType::Int64)).unwrap();
        let error = columns.add("d/b", of(DataType::Utf8)).unwrap_err();
        assert_eq!(error.to_string(), "column 'n' is BIGINT in 'a' and VARCHAR in 'b'");
        assert_eq!(error.kind(), ErrorKind::Invalid);

        let noted = |unit: &str| {
            let notes = [("unit".to_owned(), unit.to_owned())].into();
            Schema::new(vec![Field::new("n", DataType::Int64, false).with_metadata(notes)])
        };
        let mut columns = MergedColumns::default();
        columns.add("d/a", noted("m")).unwrap();
        let error = columns.add("d/b", noted("km")).unwrap_err().to_string();
        let (types, why) = error.split_once(": ").unwrap();
        assert_eq!(types, "column 'n' is BIGINT in 'a' and BIGINT in 'b'");
        assert!(why.contains("metadata") && why.contains("unit"), "{why}");
    }
}

//! Where tables come from: files named in the query itself, and the stores behind their addresses.

pub(crate) mod address;
mod csv_columns;
mod exact_values;
pub(crate) mod external_tables;
mod file_scan;
mod file_set;
mod file_table;
pub(crate) mod files;
mod folder_keys;
mod leading_zeros;
mod measured_reader;
mod mended_columns;
mod merged_columns;
pub(crate) mod own_format;
mod page_header;
mod parquet_file;
mod parquet_sizes;
mod pattern;
mod records;
mod selection;
pub(crate) mod stores;
mod text_bytes;
mod text_files;
mod text_limits;
mod text_scan;
mod text_width;
mod walk;

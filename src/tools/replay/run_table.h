// Tables of measured runs: one run of some system in each row (docs/accuracy.md).
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "training/config/config.h"

namespace tessera {

/// A row: what was run, where, and what it took.
struct TableRun {
  std::string name;   // "row 12" where the table gives none
  std::string group;  // of rows that are reported together; "" for the file
  RunConfig config;
  std::string preset;   // "pp=4,dp=2,tp=8,micro_batches=16,recompute=full"
  std::string cluster;  // as --cluster has it
  std::string runtime;  // a profile; "" where the row names none
  Seconds measured{0};  // of a step
  Bytes memory{0};      // the most that a device used; 0: not measured
  std::string skipped;  // why it is not predicted; "" where it is

  /// Parameters of the model beside its embeddings, for rows by size.
  double size() const;
};

/// The columns that have a meaning of their own; every other one is a key of presets: dp, tp, pp,
/// fsdp, zero, schedule, chunks, recompute, sequence_parallel, stage_layers.
struct TableColumn {
  std::string_view name;
  std::string_view meaning;
  std::string_view alias = {};  // a name that other tables use for it
};
std::span<const TableColumn> table_columns();

/// Reads a CSV file with a header; lines that begin with # are comments. An empty cell is a value
/// that the row does not give.
///   throws  UserError: 66 without the file; 78 for a column that nothing has, a cell that is no
///           number, or a row that has no measured step
std::vector<TableRun> read_run_table(const std::filesystem::path& file);

}  // namespace tessera

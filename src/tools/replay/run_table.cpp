#include "tools/replay/run_table.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/files/file.h"
#include "base/text/text.h"

namespace tessera {
namespace {

constexpr std::array kColumns = std::to_array<TableColumn>({
    {"name", "What the row is called"},
    {"group", "Rows of one group are reported together"},
    {"kind", "The family of the model, gpt or llama", "model_kind"},
    {"layers", "As in [model]", "num_layers"},
    {"width", "As in [model]", "hidden"},
    {"heads", "As in [model]", "num_heads"},
    {"kv_heads", "As in [model]"},
    {"ffn", "As in [model]"},
    {"context", "As in [model]", "seq"},
    {"vocabulary", "As in [model]", "vocab"},
    {"dropout", "As in [model]; default: 0.1 of gpt"},
    {"tied", "As in [model]"},
    {"batch", "Sequences of a step, over all devices", "global_batch"},
    {"micro_batch", "Sequences of a micro-batch on a data-parallel rank"},
    {"precision", "As in [train]; default: bf16"},
    {"gradient_precision", "As in [train]"},
    {"cluster", "The devices, as --cluster has them"},
    {"runtime", "The profile of what ran it"},
    {"step_s", "Measured seconds of a step", "iter_time_s"},
    {"step_ms", "The same in milliseconds", "iter_time_ms"},
    {"tokens_per_s_gpu", "In place of the step: tokens per second and device"},
    {"memory_gib", "Measured memory of the fullest device in GiB", "mem_gib"},
    {"memory_gb", "The same in GB", "mem_GB"},
    {"skip", "Why the row is not predicted"},
    {"source", "Where the figures come from"},
});

/// The cells of a line; a cell in quotation marks may have commas.
std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells{""};
  bool is_quoted = false;
  for (const char letter : line) {
    if (letter == '"')
      is_quoted = !is_quoted;
    else if (letter == ',' && !is_quoted)
      cells.emplace_back();
    else
      cells.back() += letter;
  }
  for (std::string& cell : cells) cell = trim(cell);
  return cells;
}

/// The name of a column, whatever a table calls it.
std::string column_called(const std::string& name) {
  for (const TableColumn& column : kColumns)
    if (name == column.name || (!column.alias.empty() && name == column.alias))
      return std::string(column.name);
  return name;
}

class Row {
 public:
  Row(std::string place, std::map<std::string, std::string> cells)
      : place_(std::move(place)), cells_(std::move(cells)) {}

  std::string text(std::string_view column) {
    const auto found = cells_.find(std::string(column));
    if (found == cells_.end()) return {};
    std::string value = std::move(found->second);
    cells_.erase(found);
    return value;
  }

  std::optional<double> number(std::string_view column) {
    const std::string value = text(column);
    if (value.empty()) return std::nullopt;
    char* end = nullptr;
    const double number = std::strtod(value.c_str(), &end);
    if (*end != '\0' || !std::isfinite(number) || number < 0)
      refuse(fmt::format("has {} = '{}'", column, value), "it is a number of at least 0",
             "correct the cell, or leave it empty");
    return number;
  }

  /// What no other column took: keys of presets.
  std::map<std::string, std::string>& rest() { return cells_; }

  [[noreturn]] void refuse(const std::string& what, const std::string& why,
                           const std::string& fix) const {
    throw UserError(place_ + " " + what, why, fix, ExitCode::kBadConfig);
  }

 private:
  std::string place_;
  std::map<std::string, std::string> cells_;
};

constexpr std::array kDegrees{"pp", "dp", "fsdp", "sp", "tp"};

/// The preset, with the degrees above 1 in the order of presets, and the devices that it takes.
struct RowPreset {
  std::string text;
  double devices = 1, batch_ranks = 1;
};

RowPreset preset_of(Row& row) {
  RowPreset preset;
  std::vector<std::string> parts;
  for (const char* key : kDegrees) {
    const std::optional<double> degree = row.number(key);
    if (!degree || *degree <= 1) continue;
    parts.push_back(fmt::format("{}={:.0f}", key, *degree));
    preset.devices *= *degree;
    if (std::string_view(key) == "dp" || std::string_view(key) == "fsdp")
      preset.batch_ranks *= *degree;
  }
  if (parts.empty()) parts.emplace_back("dp=1");
  for (auto& [key, value] : row.rest())
    if (!value.empty()) parts.push_back(key + "=" + value);
  row.rest().clear();
  preset.text = join(parts, ",");
  return preset;
}

Document settings_of(Row& row, double batch) {
  Document settings;
  const std::string kind = row.text("kind");
  settings["model"]["kind"] = kind.empty() ? "gpt" : kind;
  for (const char* key : {"layers", "width", "heads", "kv_heads", "ffn", "context", "vocabulary"})
    if (const std::optional<double> value = row.number(key))
      settings["model"][key] = static_cast<int64_t>(*value);
  if (const std::optional<double> dropout = row.number("dropout"))
    settings["model"]["dropout"] = *dropout;
  if (const std::string tied = row.text("tied"); !tied.empty())
    settings["model"]["tied"] = tied == "true" || tied == "1";
  // Data that is never read: the vocabulary is that of the model.
  settings["data"]["kind"] = "jsonl";
  settings["data"]["path"].append("none");
  settings["data"]["held_out"] = 0.0;
  settings["train"]["batch"] = static_cast<int64_t>(batch);
  const std::string precision = row.text("precision");
  settings["train"]["precision"] = precision.empty() ? "bf16" : precision;
  if (const std::string gradients = row.text("gradient_precision"); !gradients.empty())
    settings["train"]["gradient_precision"] = gradients;
  return settings;
}

TableRun run_of(Row row, const std::string& place) {
  TableRun run;
  run.name = row.text("name");
  if (run.name.empty()) run.name = place;
  run.group = row.text("group");
  run.cluster = row.text("cluster");
  run.runtime = row.text("runtime");
  run.skipped = row.text("skip");
  row.text("source");
  const std::optional<double> seconds = row.number("step_s"), milliseconds = row.number("step_ms");
  const std::optional<double> tokens = row.number("tokens_per_s_gpu");
  const std::optional<double> gib = row.number("memory_gib"), gb = row.number("memory_gb");
  if (gib || gb) run.memory = Bytes(static_cast<int64_t>(gib ? *gib * 0x1p30 : *gb * 1e9));
  const double batch = row.number("batch").value_or(0);
  const std::optional<double> micro_batch = row.number("micro_batch");
  if (run.skipped.empty() && (batch < 1 || run.cluster.empty()))
    row.refuse("has no batch or no cluster", "the step of a run depends on both",
               "fill the cells, or say in the column skip why the row is left out");
  const Document settings = settings_of(row, std::max(batch, 1.0));
  RowPreset preset = preset_of(row);
  if (micro_batch && *micro_batch > 0) {
    const double count = batch / preset.batch_ranks / *micro_batch;
    if (count != std::floor(count) || count < 1)
      row.refuse(fmt::format("has {:g} sequences a step for {:g} data-parallel ranks in "
                             "micro-batches of {:g}",
                             batch, preset.batch_ranks, *micro_batch),
                 "the batch is a whole number of micro-batches on each rank",
                 "correct the batch, the degrees or the micro-batch");
    if (count > 1) preset.text += fmt::format(",micro_batches={:.0f}", count);
  }
  run.preset = preset.text;
  if (!run.skipped.empty()) return run;
  run.config = read_settings(settings, place);
  const double context = static_cast<double>(run.config.model.context);
  const double step = seconds                 ? *seconds
                      : milliseconds          ? 1e-3 * *milliseconds
                      : tokens && *tokens > 0 ? batch * context / *tokens / preset.devices
                                              : 0;
  if (!(step > 0))
    row.refuse("has no measured step", "a prediction is compared with it",
               "fill step_s, step_ms or tokens_per_s_gpu");
  run.measured = Seconds(step);
  return run;
}

}  // namespace

double TableRun::size() const {
  const auto width = static_cast<double>(config.model.width);
  return static_cast<double>(config.model.layers) * width * width;
}

std::span<const TableColumn> table_columns() {
  return kColumns;
}

std::vector<TableRun> read_run_table(const std::filesystem::path& file) {
  std::vector<TableRun> runs;
  std::vector<std::string> header;
  int64_t number = 0;
  for (const std::string& line : split_text(read_file(file), '\n')) {
    ++number;
    if (trim(line).empty() || line.front() == '#') continue;
    const std::vector<std::string> cells = cells_of(line);
    if (header.empty()) {
      for (const std::string& cell : cells) header.push_back(column_called(cell));
      continue;
    }
    const std::string place = fmt::format("{}:{}", file.string(), number);
    if (cells.size() != header.size())
      throw UserError(fmt::format("{} has {} cells", place, cells.size()),
                      fmt::format("the header has {} columns", header.size()),
                      "give each column a cell, which may be empty", ExitCode::kBadConfig);
    std::map<std::string, std::string> row;
    for (size_t i = 0; i < cells.size(); ++i) row[header[i]] = cells[i];
    runs.push_back(run_of(Row(place, std::move(row)), place));
  }
  if (runs.empty())
    throw UserError(file.string() + " has no run",
                    "a table has a line with the names of its columns and a line for each run",
                    "see tessera replay --help", ExitCode::kBadConfig);
  return runs;
}

}  // namespace tessera

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/text/count_text.h"
#include "base/text/text.h"
#include "cluster/cluster/internal/import/machine_topology.h"

namespace tessera {
namespace {

constexpr std::array<std::pair<std::string_view, PciPath>, 5> kPaths{{{"PIX", PciPath::kBridge},
                                                                      {"PXB", PciPath::kBridges},
                                                                      {"PHB", PciPath::kHost},
                                                                      {"NODE", PciPath::kNode},
                                                                      {"SYS", PciPath::kSystem}}};

/// A terminal gets the header underlined: ESC [ ... m.
std::string without_escapes(std::string_view line) {
  std::string text;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\x1b') {
      text += line[i];
      continue;
    }
    while (i < line.size() && line[i] != 'm') ++i;
  }
  return text;
}

std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells;
  for (const std::string& part : split_text(without_escapes(line), '\t'))
    for (const std::string& cell : split_text(part, ' '))
      if (const std::string_view text = trim(cell); !text.empty()) cells.emplace_back(text);
  return cells;
}

/// The number of "GPU3"; -1 for anything else.
int gpu_number(std::string_view cell) {
  if (!cell.starts_with("GPU")) return -1;
  int number = 0;
  const auto [end, error] = std::from_chars(cell.data() + 3, cell.data() + cell.size(), number);
  return error == std::errc() && end == cell.data() + cell.size() ? number : -1;
}

class MatrixReader {
 public:
  explicit MatrixReader(std::string file) { topology_.source = std::move(file); }

  MachineTopology read(std::string_view text) {
    int number = 0;
    for (const std::string& line : split_text(text, '\n')) {
      ++number;
      const std::vector<std::string> cells = cells_of(line);
      if (cells.empty()) continue;
      if (line_of_header_ == 0)
        read_header(number, cells);
      else if (cells.front().starts_with("Legend"))
        break;
      else if (gpu_number(cells.front()) >= 0)
        read_row(number, cells);
    }
    if (line_of_header_ == 0) refuse(1, "the file is empty", kMatrix, kFix);
    for (int i = 0; i < topology_.devices; ++i)
      if (line_of_row_[i] == 0)
        refuse(line_of_header_, "the matrix has no row of " + columns_[i], kMatrix, kFix);
    check_symmetry();
    return topology_;
  }

 private:
  static constexpr const char* kMatrix = "the matrix has a column and a row for each GPU";
  static constexpr const char* kFix = "write the file anew with: nvidia-smi topo -m";

  [[noreturn]] void refuse(int line, const std::string& what, const std::string& why,
                           const std::string& fix) const {
    throw UserError(topology_.source + ":" + std::to_string(line) + ": " + what, why, fix,
                    ExitCode::kBadConfig);
  }

  /// GPU0 GPU1 ... mlx5_0 ... CPU Affinity NUMA Affinity
  void read_header(int line, const std::vector<std::string>& cells) {
    line_of_header_ = line;
    for (const std::string& cell : cells) {
      if (cell == "CPU" || cell == "NUMA") break;
      if (gpu_number(cell) < 0) {
        topology_.cards.push_back({cell, 0});
        continue;
      }
      if (!column_of_.emplace(cell, std::ssize(columns_)).second)
        refuse(line, "two columns are called '" + cell + "'", kMatrix, kFix);
      if (!topology_.cards.empty())
        refuse(line, "the column of '" + cell + "' stands behind one of a network card",
               "the GPUs are the first columns", kFix);
      columns_.push_back(cell);
    }
    if (columns_.empty()) refuse(line, "the matrix has no GPUs", kMatrix, kFix);
    if (columns_.size() > kMaxMachineDevices)
      refuse(line, "the matrix has " + counted(std::ssize(columns_), "GPU"),
             "a machine has at most " + grouped(kMaxMachineDevices), kFix);
    topology_.devices = static_cast<int>(columns_.size());
    topology_.paths.assign(columns_.size() * columns_.size(), PciPath::kSystem);
    topology_.nvlinks.assign(columns_.size() * columns_.size(), 0);
    line_of_row_.assign(columns_.size(), 0);
  }

  void read_row(int line, const std::vector<std::string>& cells) {
    const auto found = column_of_.find(cells.front());
    if (found == column_of_.end())
      refuse(line, "the matrix has no column for the row of " + cells.front(), kMatrix, kFix);
    const int row = found->second;
    if (line_of_row_[row] != 0)
      refuse(line, "the row of " + cells.front() + " is there twice",
             "line " + std::to_string(line_of_row_[row]) + " has it, too", kFix);
    line_of_row_[row] = line;
    if (std::ssize(cells) <= topology_.devices)
      refuse(line,
             "the row of " + cells.front() + " has " + counted(std::ssize(cells) - 1, "cell") +
                 " of " + std::to_string(topology_.devices),
             kMatrix, kFix);
    for (int column = 0; column < topology_.devices; ++column)
      read_cell(line, row, column, cells[column + 1]);
  }

  void read_cell(int line, int row, int column, const std::string& cell) {
    const std::string where = columns_[row] + " and " + columns_[column];
    if ((row == column) != (cell == "X"))
      refuse(line, "the cell of " + where + " is '" + cell + "'",
             "X stands where the row and the column are the same GPU", kFix);
    if (row == column) return;
    const size_t at = row * columns_.size() + column;
    for (const auto& [name, path] : kPaths)
      if (cell == name) {
        topology_.paths[at] = path;
        return;
      }
    const char* end = cell.data() + cell.size();
    int links = 0;
    if (cell.starts_with("NV")) {
      const auto [stop, error] = std::from_chars(cell.data() + 2, end, links);
      if (error != std::errc() || stop != end) links = 0;
    }
    if (links < 1 || links > kMaxNvLinks)
      refuse(line, "the cell of " + where + " is '" + cell + "'",
             "a cell is X, PIX, PXB, PHB, NODE, SYS, or NV and the number of NVLinks", kFix);
    topology_.nvlinks[at] = links;
  }

  void check_symmetry() const {
    for (int a = 0; a < topology_.devices; ++a)
      for (int b = 0; b < a; ++b) {
        if (topology_.links(a, b) == topology_.links(b, a) &&
            topology_.path(a, b) == topology_.path(b, a))
          continue;
        refuse(line_of_row_[a],
               "the path from " + columns_[a] + " to " + columns_[b] + " is not the one back",
               "the links between two devices serve both directions, so that the matrix is "
               "symmetric",
               kFix);
      }
  }

  MachineTopology topology_;
  int line_of_header_ = 0;
  std::vector<std::string> columns_;
  std::map<std::string, int> column_of_;
  std::vector<int> line_of_row_;
};

}  // namespace

bool is_matrix_header(std::string_view line) {
  const std::vector<std::string> cells = cells_of(line.substr(0, 1 << 16));
  return !cells.empty() && gpu_number(cells.front()) >= 0;
}

MachineTopology parse_nvidia_smi(std::string_view text, const std::string& file) {
  return MatrixReader(file).read(text);
}

}  // namespace tessera

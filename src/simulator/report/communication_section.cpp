#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "simulator/report/internal/html.h"
#include "simulator/report/internal/sections.h"
#include "simulator/step/rank_traffic.h"
#include "simulator/step/step_text.h"

namespace tessera {
namespace {

constexpr int kMaxCells = 64;  // of a side of the matrix
constexpr double kSide = 480, kLabel = 34, kMaxCell = 76;
constexpr double kMinNumbered = 60;  // the size of cells that have numbers
constexpr int kDecades = 4;          // of the scale
constexpr double kScaleStep = 90;

std::string axes_name(const std::string& axes) {
  return axes.empty() ? "between meshes" : axes;
}

/// Bytes from and to groups of neighbouring ranks.
struct Matrix {
  int cells = 0;
  int ranks_of_cell = 1;
  std::map<std::pair<int, int>, int64_t> bytes;
};

Matrix matrix_of(const std::vector<PairTraffic>& traffic, int ranks) {
  Matrix matrix;
  matrix.ranks_of_cell = (ranks + kMaxCells - 1) / kMaxCells;
  matrix.cells = (ranks + matrix.ranks_of_cell - 1) / matrix.ranks_of_cell;
  for (const PairTraffic& pair : traffic)
    matrix.bytes[{pair.from / matrix.ranks_of_cell, pair.to / matrix.ranks_of_cell}] +=
        pair.bytes.value();
  return matrix;
}

std::string ranks_text(const Matrix& matrix, int cell) {
  const int first = cell * matrix.ranks_of_cell;
  return matrix.ranks_of_cell == 1
             ? fmt::format("rank {}", first)
             : fmt::format("ranks {} to {}", first, first + matrix.ranks_of_cell - 1);
}

/// How dark a cell is, on a logarithmic scale down to a part of 10^-kDecades.
double opacity_of(int64_t bytes, int64_t largest) {
  const double decades = std::log10(static_cast<double>(largest) / static_cast<double>(bytes));
  return std::clamp(1 - decades / kDecades, 0.1, 1.0);
}

std::string heat_box(double x, double y, double size, double opacity, const std::string& title) {
  return fmt::format(
      "<rect class=\"heat\" x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" "
      "opacity=\"{:.2f}\"><title>{}</title></rect>\n",
      x, y, size, size, opacity, escaped(title));
}

/// The scale: a box for the largest number of bytes, and for parts of it.
std::string scale_drawing(double y, int64_t largest) {
  std::string body;
  int64_t bytes = largest;
  for (int decade = 0; decade < kDecades && bytes > 0; ++decade, bytes /= 10) {
    const double x = kLabel + decade * kScaleStep;
    body += heat_box(x, y, 14, opacity_of(bytes, largest), to_text(Bytes(bytes)));
    body += drawn_text(x + 18, y + 12, to_text(Bytes(bytes)));
  }
  return body;
}

/// The darker a cell, the more bytes. Few cells have their numbers.
std::string matrix_drawing(const Matrix& matrix) {
  int64_t largest = 1;
  for (const auto& [cell, bytes] : matrix.bytes) largest = std::max(largest, bytes);
  const double side = std::min(kSide, matrix.cells * kMaxCell), size = side / matrix.cells;
  std::string body = fmt::format(
      "<rect class=\"frame\" x=\"{0}\" y=\"{0}\" width=\"{1}\" height=\"{1}\" />\n", kLabel, side);
  for (const auto& [cell, bytes] : matrix.bytes) {
    const double x = kLabel + cell.second * size, y = kLabel + cell.first * size;
    const std::string amount = to_text(Bytes(bytes));
    body += heat_box(x, y, size, opacity_of(bytes, largest),
                     fmt::format("from {} to {}: {}", ranks_text(matrix, cell.first),
                                 ranks_text(matrix, cell.second), amount));
    if (size >= kMinNumbered)
      body += drawn_text(x + size / 2, y + size / 2 + 4, amount, "middle", "label");
  }
  body += drawn_text(kLabel, 14, "to rank 0, 1, ...") + drawn_text(0, kLabel + 14, "from");
  body += scale_drawing(kLabel + side + 10, largest);
  const double width = kLabel + std::max(side, kDecades * kScaleStep);
  return sized_drawing(width, kLabel + side + 30, "bytes between pairs of ranks", body);
}

std::string axes_table(const ReportedPlan& plan, const std::vector<PairTraffic>& traffic) {
  struct OfAxes {
    int64_t bytes = 0;
    double exposed = 0, time = 0;
    std::map<Rank, int64_t> received;
  };
  std::map<std::string, OfAxes> list;
  for (const PairTraffic& pair : traffic) {
    OfAxes& axes = list[pair.axes];
    axes.bytes += pair.bytes.value();
    axes.received[pair.to] += pair.bytes.value();
  }
  const double ranks = std::max<double>(1, static_cast<double>(plan.prediction->ranks.size()));
  for (const RankBreakdown& rank : plan.prediction->ranks) {
    for (const auto& [axes, time] : rank.exposed) list[axes].exposed += time.value() / ranks;
    for (const auto& [axes, time] : rank.exchanges) list[axes].time += time.value() / ranks;
  }
  HtmlTable table({"axis", "bytes in a step", "most that a rank receives",
                   "time, mean of the ranks", "exposed"},
                  "lrrrr");
  for (const auto& [axes, of] : list) {
    int64_t largest = 0;
    for (const auto& [rank, bytes] : of.received) largest = std::max(largest, bytes);
    table.add({axes_name(axes), to_text(Bytes(of.bytes)), to_text(Bytes(largest)),
               step_text(Seconds(of.time)), step_text(Seconds(of.exposed))});
  }
  return table.text();
}

}  // namespace

std::string communication_section(const ReportedPlan& plan) {
  const std::vector<PairTraffic> traffic = rank_traffic(*plan.tasks);
  if (traffic.empty()) return section("Communication", paragraph("The ranks exchange nothing."));
  const Matrix matrix = matrix_of(traffic, static_cast<int>(plan.prediction->ranks.size()));
  return section("Communication", matrix_drawing(matrix) + axes_table(plan, traffic));
}

}  // namespace tessera

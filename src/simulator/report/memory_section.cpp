#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text/count_text.h"
#include "simulator/report/internal/html.h"
#include "simulator/report/internal/sections.h"
#include "simulator/step/step_text.h"

namespace tessera {
namespace {

constexpr size_t kMaxRanks = 8;
constexpr size_t kColumns = 250;
constexpr double kHeight = 160, kBottom = 20;

/// Of each column of the drawing, the moment with most bytes.
using Columns = std::array<BytesByKind, kColumns>;

Columns columns_of(const MemoryOverTime& memory, Seconds step) {
  Columns columns = {};
  std::array<Bytes, kColumns> maximum = {};
  const auto column_at = [&](Seconds at) {
    const double part = step.value() > 0 ? at.value() / step.value() : 0;
    return static_cast<size_t>(std::clamp(part, 0.0, 1.0) * (kColumns - 1));
  };
  for (size_t i = 0; i < memory.moments.size(); ++i) {
    const MemoryMoment& moment = memory.moments[i];
    const Seconds end = i + 1 < memory.moments.size() ? memory.moments[i + 1].at : step;
    const Bytes bytes = sum(moment.bytes);
    for (size_t c = column_at(moment.at); c <= column_at(end); ++c) {
      if (bytes <= maximum[c]) continue;
      maximum[c] = bytes;
      columns[c] = moment.bytes;
    }
  }
  return columns;
}

std::string style_of(size_t kind) {
  return fmt::format("memory{}", kind);
}

/// One polygon for each kind, on top of those before it.
std::string areas(const MemoryOverTime& memory, Seconds step) {
  const Columns columns = columns_of(memory, step);
  const double maximum =
      std::max<double>(1, static_cast<double>(sum(memory.at_peak().bytes).value()));
  const double height = kHeight - kBottom;
  std::array<double, kColumns> below = {};
  std::string text;
  for (size_t kind = 0; kind < kMemoryKinds; ++kind) {
    std::string upper, lower;
    bool is_empty = true;
    for (size_t c = 0; c < kColumns; ++c) {
      const double x = kDrawingWidth * static_cast<double>(c) / (kColumns - 1);
      const double bytes = static_cast<double>(columns[c][kind].value());
      is_empty = is_empty && bytes == 0;
      lower = fmt::format("{:.1f},{:.1f} ", x, height * (1 - below[c] / maximum)) + lower;
      below[c] += bytes;
      upper += fmt::format("{:.1f},{:.1f} ", x, height * (1 - below[c] / maximum));
    }
    if (is_empty) continue;
    text +=
        fmt::format("<polygon class=\"{}\" points=\"{}{}\"><title>{}</title></polygon>\n",
                    style_of(kind), upper, lower, escaped(to_text(static_cast<MemoryKind>(kind))));
  }
  return text;
}

std::string of_rank(const MemoryOverTime& memory, Seconds step) {
  const MemoryMoment& peak = memory.at_peak();
  const double x = step.value() > 0 ? kDrawingWidth * peak.at.value() / step.value() : 0;
  const std::string text = fmt::format("rank {}: at most {} at {}, when {} is filled", memory.rank,
                                       to_text(sum(peak.bytes)), step_text(peak.at), memory.filled);
  std::string body = areas(memory, step);
  body +=
      fmt::format("<line class=\"mark\" x1=\"{0:.1f}\" y1=\"0\" x2=\"{0:.1f}\" y2=\"{1:.0f}\" />\n",
                  x, kHeight - kBottom);
  body += drawn_text(0, kHeight - 5, "0 ms");
  body += drawn_text(kDrawingWidth, kHeight - 5, step_text(step), "end");
  return paragraph(text) + drawing(kDrawingWidth, kHeight, text, body);
}

std::string contents(const MemoryOverTime& memory) {
  HtmlTable kinds({"in use at the peak", "bytes", "part"}, "lrr");
  const double all = static_cast<double>(sum(memory.at_peak().bytes).value());
  for (size_t kind = 0; kind < kMemoryKinds; ++kind)
    if (const Bytes bytes = memory.at_peak().bytes[kind]; bytes.value() > 0)
      kinds.add({std::string(to_text(static_cast<MemoryKind>(kind))), to_text(bytes),
                 fmt::format("{:.1f}%", 100 * static_cast<double>(bytes.value()) / all)});
  HtmlTable largest({"largest at the peak", "kind", "bytes"}, "llr");
  for (const PeakRegister& reg : memory.largest)
    largest.add({reg.name, std::string(to_text(reg.kind)), to_text(reg.bytes)});
  return kinds.text() + (memory.largest.empty() ? "" : largest.text());
}

}  // namespace

std::string memory_section(const ReportedPlan& plan) {
  const auto& list = plan.prediction->memory_over_time;
  if (list.empty()) return "";
  std::string text;
  for (size_t i = 0; i < std::min(list.size(), kMaxRanks); ++i)
    text += of_rank(list[i], plan.prediction->step);
  std::vector<LegendEntry> entries;
  for (size_t kind = 0; kind < kMemoryKinds; ++kind)
    entries.push_back({style_of(kind), std::string(to_text(static_cast<MemoryKind>(kind)))});
  text += legend(entries);
  if (list.size() > kMaxRanks)
    text += note("... and " + std::to_string(list.size() - kMaxRanks) +
                 " more classes of identical ranks");
  const auto peak = [](const MemoryOverTime& memory) { return sum(memory.at_peak().bytes); };
  return section("Memory over time", text + contents(*std::ranges::max_element(list, {}, peak)));
}

}  // namespace tessera

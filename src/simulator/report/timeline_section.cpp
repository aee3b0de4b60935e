#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text/count_text.h"
#include "simulator/report/internal/html.h"
#include "simulator/report/internal/sections.h"
#include "simulator/step/step_text.h"

namespace tessera {
namespace {

constexpr size_t kMaxTracks = 32;
constexpr double kLeft = 165, kRow = 18, kBar = 14;
constexpr double kNarrow = 0.4;  // units: narrower spans are joined with their neighbours

/// The style of a span: its role, by the pass that it belongs to, or an exchange.
std::string style_of(const Span& span) {
  if (span.kind == Span::Kind::kCopy) return "exchange";
  switch (span.pass.empty() ? ' ' : span.pass.front()) {
    case 'F': return "forward";
    case 'B': return "backward";
    case 'W': return "weights";
    case 'O': return "optimizer";
    default: return "other";
  }
}

/// The spans of a track in the step as boxes. Spans that would be too narrow to be seen are joined.
class Boxes {
 public:
  Boxes(double y, Seconds begin, Seconds step) : y_(y), begin_(begin), step_(step) {}

  void add(const Span& span) {
    const double from = place(span.begin), to = place(span.end);
    if (to <= kLeft) return;
    const std::string style = style_of(span);
    const std::string title =
        fmt::format("{} {} {}", span.pass, span.name, step_text(span.end - span.begin));
    if (has_last_ && to - last_.x < kNarrow) {
      last_.width = std::max(last_.width, to - last_.x);
      ++joined_;
      return;
    }
    flush();
    last_ = {
        std::max(from, kLeft), y_, std::max(to - std::max(from, kLeft), 0.05), kBar, style, title};
    has_last_ = true;
  }
  std::string text() {
    flush();
    return std::move(text_);
  }

 private:
  double place(Seconds at) const {
    return kLeft + (kDrawingWidth - kLeft) * (at - begin_).value() / step_.value();
  }
  void flush() {
    if (!has_last_) return;
    if (joined_ > 0) last_.title += fmt::format(" and {} short ones", joined_);
    text_ += drawn(last_);
    has_last_ = false;
    joined_ = 0;
  }

  const double y_;
  const Seconds begin_, step_;
  DrawnBox last_;
  bool has_last_ = false;
  int joined_ = 0;
  std::string text_;
};

}  // namespace

std::string timeline_section(const ReportedPlan& plan) {
  const StepPrediction& prediction = *plan.prediction;
  if (prediction.step.value() <= 0) return "";
  std::map<Rank, size_t> like;
  for (const RankBreakdown& rank : prediction.ranks) ++like[rank.representative];
  const auto& tracks = prediction.timeline.tracks;
  const size_t count = std::min(tracks.size(), kMaxTracks);
  std::string body;
  for (size_t i = 0; i < count; ++i) {
    const double y = static_cast<double>(i) * kRow + 2;
    const size_t ranks = like[tracks[i].rank];
    body +=
        drawn_text(0, y + 11,
                   fmt::format("rank {}{} {}", tracks[i].rank,
                               ranks > 1 ? fmt::format(" (of {})", ranks) : "", tracks[i].stream));
    Boxes boxes(y, prediction.begin, prediction.step);
    for (const Span& span : tracks[i].spans)
      if (span.kind == Span::Kind::kAct || span.kind == Span::Kind::kCopy) boxes.add(span);
    body += boxes.text();
  }
  const double height = static_cast<double>(count) * kRow + 22;
  body += drawn_text(kLeft, height - 4, "0 ms");
  body += drawn_text(kDrawingWidth, height - 4, step_text(prediction.step), "end");
  std::string text = drawing(kDrawingWidth, height, "timeline of a step", body) +
                     legend({{"forward", "forward"},
                             {"backward", "backward"},
                             {"weights", "gradients of weights"},
                             {"optimizer", "optimizer"},
                             {"exchange", "exchange"},
                             {"other", "other"}});
  if (count < tracks.size())
    text += note("... and " + counted(std::ssize(tracks) - static_cast<int64_t>(count), "track") +
                 " more");
  return section("Timeline of a step", text);
}

}  // namespace tessera

// Source: Trace Event Format (Chrome), which Perfetto reads.
#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/files/document.h"
#include "base/timeline/timeline.h"

namespace tessera {
namespace {

class Writer {
 public:
  explicit Writer(const Timeline& timeline) : timeline_(timeline) {}

  std::string run() {
    add_names();
    for (size_t track = 0; track < timeline_.tracks.size(); ++track)
      for (const Span& span : timeline_.tracks[track].spans) add_span(track, span);
    for (const TimedMessage& message : timeline_.messages) add_message(message);
    return "{\"displayTimeUnit\":\"ms\",\"otherData\":" +
           to_json(Document::Table{{"lost_events", timeline_.lost}}) + ",\"traceEvents\":[\n" +
           events_ + "\n]}\n";
  }

 private:
  static double microseconds(Seconds time) { return time.value() * 1e6; }

  /// Writes one event at a time, so that the whole tree is never in memory.
  void add(const char* phase, size_t track, Document::Table fields) {
    Document event = Document::Table{{"ph", phase},
                                     {"pid", timeline_.tracks.at(track).rank},
                                     {"tid", static_cast<int64_t>(track)}};
    for (auto& [key, value] : fields) event[key] = std::move(value);
    events_ += (events_.empty() ? "" : ",\n") + to_json(event);
  }

  void add_names() {
    std::set<Rank> named;
    for (size_t track = 0; track < timeline_.tracks.size(); ++track) {
      const auto& [rank, stream, spans] = timeline_.tracks[track];
      if (named.insert(rank).second) {
        add("M", track,
            {{"name", "process_name"},
             {"args", Document::Table{{"name", "rank " + std::to_string(rank)}}}});
        add("M", track,
            {{"name", "process_sort_index"}, {"args", Document::Table{{"sort_index", rank}}}});
      }
      add("M", track, {{"name", "thread_name"}, {"args", Document::Table{{"name", stream}}}});
    }
  }

  void add_span(size_t track, const Span& span) {
    Document::Table details{{"iteration", span.iteration}};
    if (span.micro_batch >= 0) details.emplace_back("micro_batch", span.micro_batch);
    if (!span.pass.empty()) details.emplace_back("pass", span.pass);
    add("X", track,
        {{"name", span.name},
         {"cat", std::string(to_text(span.kind))},
         {"ts", microseconds(span.begin)},
         {"dur", microseconds(span.end - span.begin)},
         {"args", std::move(details)}});
  }

  void add_message(const TimedMessage& message) {
    if (message.kind == TimedMessage::Kind::kReleased) {
      add("i", message.to,
          {{"name", "release: " + message.name},
           {"cat", "returned"},
           {"ts", microseconds(message.arrived)},
           {"s", "t"},
           {"args", Document::Table{{"from", timeline_.tracks.at(message.from).rank},
                                    {"sent", microseconds(message.sent)}}}});
      return;
    }
    const int64_t id = ++flows_;
    // A flow must begin inside of a slice; the end of a slice is outside of it.
    const double sent = microseconds(message.sent - Seconds(1e-9));
    add("s", message.from, {{"name", message.name}, {"cat", "message"}, {"id", id}, {"ts", sent}});
    add("f", message.to,
        {{"name", message.name},
         {"cat", "message"},
         {"id", id},
         {"bp", "e"},
         {"ts", microseconds(message.used)},
         {"args", Document::Table{{"arrived", microseconds(message.arrived)}}}});
  }

  const Timeline& timeline_;
  std::string events_;
  int64_t flows_ = 0;
};

}  // namespace

std::string_view to_text(Span::Kind kind) {
  switch (kind) {
    case Span::Kind::kAct: return "act";
    case Span::Kind::kKernel: return "kernel";
    case Span::Kind::kCopy: return "copy";
    case Span::Kind::kWait: return "wait";
  }
  throw InternalError("unknown kind of span");
}

std::string to_trace_json(const Timeline& timeline) {
  return Writer(timeline).run();
}

}  // namespace tessera

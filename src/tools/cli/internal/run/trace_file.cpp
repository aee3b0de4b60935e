#include "tools/cli/internal/run/trace_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/files/file.h"
#include "base/text/count_text.h"
#include "tools/cli/internal/run/output_files.h"

namespace tessera {
namespace {

constexpr int64_t kAllocatingSteps = 2;  // steps that allocate

}  // namespace

TraceFile::TraceFile(Engine& engine, std::filesystem::path path, int64_t steps)
    : engine_(engine), path_(std::move(path)), steps_(steps) {}

void TraceFile::on_train_begin(const TrainingState& state, TrainingControl&) {
  const int64_t to_do = state.last_step - state.step;
  begin_ = state.step + std::clamp<int64_t>(to_do - steps_, 0, kAllocatingSteps);
}

CallbackNeeds TraceFile::needs(int64_t step) const {
  return step == begin_ || step == begin_ + steps_ ? CallbackNeeds::kQuiescentEngine
                                                   : CallbackNeeds::kMetricsOnly;
}

void TraceFile::on_step_begin(const TrainingState& state, TrainingControl&) {
  if (recording_ || state.step != begin_) return;
  engine_.runtime().start_trace();
  recording_ = true;
}

void TraceFile::on_step_end(const TrainingState& state, TrainingControl&) {
  if (recording_ && state.step == begin_ + steps_) write(state.step);
}

void TraceFile::on_train_end(const TrainingState& state, TrainingControl&) {
  if (recording_) write(state.step);
}

void TraceFile::write(int64_t last_step) {
  recording_ = false;
  const Timeline timeline = engine_.runtime().stop_trace();
  if (timeline.tracks.empty()) return;  // another process writes the trace of all
  write_output(path_, to_trace_json(timeline));
  size_t spans = 0;
  for (const Track& track : timeline.tracks) spans += track.spans.size();
  summary_ =
      fmt::format("{}: {} spans and {} messages between ranks, steps {} to {}", path_.string(),
                  grouped(spans), grouped(timeline.messages.size()), begin_ + 1, last_step);
  if (timeline.lost > 0)
    summary_ += fmt::format("; {} events were dropped: record fewer steps", grouped(timeline.lost));
}

}  // namespace tessera

// What a rank writes down of its acts. Nobody asks for it: then recorder_ is none, and this costs a
// comparison.
#include "executor/rank_program.h"

namespace tessera {

void RankProgram::record_into(Recorder* recorder) {
  recorder_ = recorder;
  for (const auto& [control, regions] : regions_)
    for (RankProgram* region : regions) region->record_into(recorder);
}

void RankProgram::record_wait(const Task& task, const Plan& plan, Recorder::Time begin) {
  if (recorder_)
    recorder_->add({Span::Kind::kWait, TaskStream::kHost, &task, nullptr, plan.actor.iterations(),
                    begin, Recorder::now()});
}

/// Called last, so that the messages of the act were sent within it.
void RankProgram::record_act(const Task& task, int64_t record, Recorder::Time begin,
                             TaskStream stream) {
  if (!recorder_) return;
  const auto kind = task.kind == Task::Kind::kCompute ? Span::Kind::kAct : Span::Kind::kCopy;
  recorder_->add({kind, stream, &task, nullptr, record, begin, Recorder::now()});
}

/// returns  when it ended
Recorder::Time RankProgram::record_kernel(const Task& task, const KernelStep& step,
                                          const Plan& plan, Recorder::Time begin) {
  const auto end = now();
  if (recorder_)
    recorder_->add({Span::Kind::kKernel, TaskStream::kHost, &task, &step,
                    plan.actor.iterations() - 1, begin, end});
  return end;
}

}  // namespace tessera

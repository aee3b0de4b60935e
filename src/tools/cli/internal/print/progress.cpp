#include "tools/cli/internal/print/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>

#include "base/text/count_text.h"
#include "base/text/printable.h"
#include "tools/cli/internal/print/print.h"

namespace tessera {
namespace {

constexpr int64_t kLines = 10;
constexpr int64_t kBarWidth = 24;
constexpr std::chrono::milliseconds kBarPeriod{
    50};  // a terminal needs no more than twenty bars a second

constexpr Seconds kFirstEstimate{1};
constexpr std::chrono::seconds kLinePeriod{5};       // within steps
constexpr std::chrono::seconds kStepLinePeriod{10};  // between steps

/// Whole seconds: tenths of a second of an estimate are noise.
std::string whole_seconds(Seconds seconds) {
  return to_text(Seconds(std::ceil(seconds.value())));
}

}  // namespace

std::string step_line(const ProgressState& state) {
  std::string line = fmt::format("step: {}", state.done);
  if (!std::isnan(state.loss)) line += fmt::format("  loss: {:.4f}", state.loss);
  if (state.grad_norm > 0) line += fmt::format("  grad_norm: {:.4f}", state.grad_norm);
  if (state.per_second > 0)
    line += fmt::format("  {}s/s: {}", state.unit, grouped(std::llround(state.per_second)));
  if (state.left.value() > 0) line += "  time left: " + whole_seconds(state.left);
  return line;
}

std::string bar_line(const ProgressState& state) {
  const int64_t full = state.steps == 0 ? kBarWidth : kBarWidth * state.done / state.steps;
  const std::string bar = std::string(full, '#') + std::string(kBarWidth - full, '-');
  std::string line = fmt::format("  {:>{}}/{} [{}]", state.done, std::to_string(state.steps).size(),
                                 state.steps, bar);
  if (!std::isnan(state.loss)) line += fmt::format("  loss {:.4f}", state.loss);
  if (state.per_second > 0)
    line += fmt::format("  {} {}s/s", grouped(std::llround(state.per_second)), state.unit);
  if (state.left.value() > 0) line += "  " + whole_seconds(state.left) + " left";
  return line;
}

std::string within_line(double done, int64_t steps, Seconds left) {
  std::string line = fmt::format("step: {:.2g} of {}", done, steps);
  if (left.value() > 0) line += "  time left: " + whole_seconds(left);
  return line;
}

bool is_worth_a_line(int64_t done, int64_t steps) {
  const int64_t stride = std::max<int64_t>(1, (steps + kLines - 1) / kLines);
  return done == 1 || done == steps || done % stride == 0;
}

Progress::Form Progress::form_of_terminal() {
  return isatty(STDERR_FILENO) != 0 ? Form::kBar : Form::kLines;
}

Progress::Progress(int64_t steps, std::string unit, Form form, Now now)
    : steps_(steps), unit_(std::move(unit)), form_(form), now_(std::move(now)) {}

Progress::~Progress() {
  erase_bar();
}

void Progress::within(double done) {
  const Clock::time_point now = now_();
  if (first_within_ <= 0) {
    first_within_ = std::max(done, 0.0);
    first_within_time_ = now;
  }
  const Seconds passed(std::chrono::duration<double>(now - first_within_time_).count());
  const bool is_last = done >= static_cast<double>(steps_);
  left_ =
      is_last || done <= first_within_ || passed < kFirstEstimate
          ? Seconds(0)
          : Seconds(passed.value() * (static_cast<double>(steps_) - done) / (done - first_within_));
  if (form_ == Form::kBar) {
    const ProgressState state{
        .done = static_cast<int64_t>(done), .steps = steps_, .loss = std::nan(""), .left = left_};
    show_bar(bar_line(state), is_last);
    return;
  }
  const bool is_step = done > 0 && done == std::floor(done);
  if (is_step ? !is_worth_a_line(static_cast<int64_t>(done), steps_)
              : left_.value() == 0 || now - std::max(begin_, last_shown_) < kLinePeriod)
    return;
  tell(within_line(done, steps_, left_) + "\n");
  last_shown_ = now;
}

double Progress::speed_since(const Mark& mark, Clock::time_point now) const {
  const double passed = std::chrono::duration<double>(now - mark.time).count();
  return passed > 0 ? static_cast<double>(units_ - mark.units) / passed : 0;
}

void Progress::step(int64_t done, double loss, double grad_norm, int64_t units) {
  const Clock::time_point now = now_();
  ProgressState state{
      .done = done, .steps = steps_, .loss = loss, .grad_norm = grad_norm, .unit = unit_};
  if (first_done_ == 0) {
    first_done_ = done;
    first_end_ = last_line_ = {now, 0};
  } else {
    units_ += units;
    state.per_second = speed_since(form_ == Form::kLines ? last_line_ : first_end_, now);
    const double passed = std::chrono::duration<double>(now - first_end_.time).count();
    state.left = Seconds(passed / static_cast<double>(done - first_done_) *
                         static_cast<double>(steps_ - done));
  }
  if (form_ == Form::kBar) {
    show_bar(bar_line(state), done == steps_);
    return;
  }
  if (!is_worth_a_line(done, steps_) && now - last_line_.time < kStepLinePeriod) return;
  tell(step_line(state) + "\n");
  last_line_ = {now, units_};
}

void Progress::show_bar(const std::string& line, bool is_last) {
  const Clock::time_point now = now_();
  if (bar_shown_ && !is_last && now - last_shown_ < kBarPeriod) return;
  std::cerr << "\r" + printable(line) + "\x1b[K" << std::flush;
  bar_shown_ = true;
  last_shown_ = now;
}

void Progress::note(const std::string& line) {
  erase_bar();
  tell(line + "\n");
}

void Progress::erase_bar() {
  if (bar_shown_) std::cerr << "\r\x1b[K" << std::flush;
  bar_shown_ = false;
}

EvaluationProgress::EvaluationProgress(Progress::Now now) : now_(std::move(now)) {}

void EvaluationProgress::batch(int64_t done, int64_t batches) {
  const Progress::Clock::time_point now = now_();
  if (done == 1) first_end_ = last_shown_ = now;
  if (done == batches || now - last_shown_ < kStepLinePeriod) return;
  last_shown_ = now;
  const double passed = std::chrono::duration<double>(now - first_end_).count();
  const Seconds left(passed / static_cast<double>(done - 1) * static_cast<double>(batches - done));
  tell(fmt::format("validation: batch {} of {}  time left: {}\n", done, batches,
                   whole_seconds(left)));
}

}  // namespace tessera

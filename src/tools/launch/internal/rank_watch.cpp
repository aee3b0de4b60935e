#include "tools/launch/internal/rank_watch.h"

#include <charconv>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

namespace fs = std::filesystem;

namespace {

/// The text of a file; "" when it cannot be read.
std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<pid_t> children_of(pid_t process) {
  std::vector<pid_t> children;
  std::error_code error;
  // The process may end while it is looked at.
  fs::directory_iterator thread("/proc/" + std::to_string(process) + "/task", error);
  for (; !error && thread != fs::directory_iterator(); thread.increment(error)) {
    std::istringstream numbers(text_of(thread->path() / "children"));
    for (pid_t child = 0; numbers >> child;) children.push_back(child);
  }
  return children;
}

std::optional<int> rank_of(pid_t process) {
  const std::string environment = text_of("/proc/" + std::to_string(process) + "/environ");
  for (const std::string_view name : {"OMPI_COMM_WORLD_RANK=", "PMI_RANK=", "SLURM_PROCID="}) {
    for (size_t at = environment.find(name); at != std::string::npos;
         at = environment.find(name, at + 1)) {
      if (at > 0 && environment[at - 1] != '\0') continue;
      int rank = 0;
      const char* begin = environment.data() + at + name.size();
      if (std::from_chars(begin, environment.data() + environment.size(), rank).ec == std::errc{})
        return rank;
    }
  }
  return std::nullopt;
}

enum class ProcessState { kExited, kStopped, kAlive };

/// The state of a process. A zombie has exited.
ProcessState state_of(pid_t process) {
  const std::string status = text_of("/proc/" + std::to_string(process) + "/stat");
  const size_t name_end = status.rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= status.size() || status[name_end + 2] == 'Z')
    return ProcessState::kExited;
  return status[name_end + 2] == 'T' ? ProcessState::kStopped : ProcessState::kAlive;
}

bool blocks_sigterm(pid_t process) {
  const std::string status = text_of("/proc/" + std::to_string(process) + "/status");
  constexpr std::string_view kName = "SigBlk:\t";
  const size_t at = status.find(kName);
  if (at == std::string::npos) return false;
  uint64_t mask = 0;
  std::from_chars(status.data() + at + kName.size(), status.data() + status.size(), mask, 16);
  return (mask >> (SIGTERM - 1)) & 1;
}

}  // namespace

void RankWatch::remove_exited(Clock::time_point now) {
  std::vector<Rank> lost;
  for (auto at = ranks_.begin(); at != ranks_.end();) {
    const ProcessState state = state_of(at->first);
    Seen& seen = at->second;
    if (state != ProcessState::kStopped)
      seen.stopped_since.reset();
    else if (!seen.stopped_since)
      seen.stopped_since = now;
    if (state == ProcessState::kExited) lost.push_back({seen.rank, at->first});
    at = state == ProcessState::kExited ? ranks_.erase(at) : std::next(at);
  }
  if (lost.empty() || has_lost_) return;
  has_lost_ = true;
  if (lost.size() == 1) first_lost_ = lost.front();
}

/// Adds new processes.
void RankWatch::add_new() {
  for (pid_t child : children_of(launcher_))
    if (!ranks_.contains(child) && state_of(child) != ProcessState::kExited)
      if (const auto rank = rank_of(child)) ranks_.emplace(child, Seen{*rank});
}

void RankWatch::update(Clock::time_point now) {
  remove_exited(now);
  add_new();
  if (!has_lost_ || !ranks_.empty())
    empty_since_.reset();
  else if (!empty_since_)
    empty_since_ = now;
}

std::optional<RankWatch::Rank> RankWatch::stopped_for(Clock::duration time,
                                                      Clock::time_point now) const {
  for (const auto& [process, seen] : ranks_)
    if (seen.stopped_since && now - *seen.stopped_since > time) return Rank{seen.rank, process};
  return std::nullopt;
}

std::vector<pid_t> RankWatch::alive() const {
  std::vector<pid_t> processes;
  for (const auto& [process, seen] : ranks_) processes.push_back(process);
  return processes;
}

std::vector<pid_t> RankWatch::polling_for_signals() const {
  std::vector<pid_t> processes = alive();
  std::erase_if(processes, [](pid_t process) { return !blocks_sigterm(process); });
  return processes;
}

bool RankWatch::is_without_processes(std::chrono::seconds grace) const {
  return empty_since_ && Clock::now() - *empty_since_ > grace;
}

}  // namespace tessera

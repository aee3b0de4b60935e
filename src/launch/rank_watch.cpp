#include "launch/rank_watch.h"

#include <charconv>
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

/// "" when it cannot be read.
std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<pid_t> children_of(pid_t process) {
  std::vector<pid_t> children;
  std::error_code error;
  for (const auto& thread :
       fs::directory_iterator("/proc/" + std::to_string(process) + "/task", error)) {
    std::istringstream numbers(text_of(thread.path() / "children"));
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

enum class Standing { kGone, kStopped, kAlive };

/// A process that only waits to be buried is gone.
Standing standing_of(pid_t process) {
  const std::string status = text_of("/proc/" + std::to_string(process) + "/stat");
  const size_t name_end = status.rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= status.size() || status[name_end + 2] == 'Z')
    return Standing::kGone;
  return status[name_end + 2] == 'T' ? Standing::kStopped : Standing::kAlive;
}

}  // namespace

/// Those that are gone.
void RankWatch::take_leave() {
  std::vector<Rank> lost;
  for (auto at = ranks_.begin(); at != ranks_.end();) {
    const Standing standing = standing_of(at->first);
    Seen& seen = at->second;
    if (standing != Standing::kStopped)
      seen.stopped_since.reset();
    else if (!seen.stopped_since)
      seen.stopped_since = Clock::now();
    if (standing == Standing::kGone) lost.push_back({seen.rank, at->first});
    at = standing == Standing::kGone ? ranks_.erase(at) : std::next(at);
  }
  if (lost.empty() || has_lost_) return;
  has_lost_ = true;
  if (lost.size() == 1) first_lost_ = lost.front();
}

/// Those that are new.
void RankWatch::greet() {
  for (pid_t child : children_of(launcher_))
    if (!ranks_.contains(child) && standing_of(child) != Standing::kGone)
      if (const auto rank = rank_of(child)) ranks_.emplace(child, Seen{*rank});
}

void RankWatch::look() {
  take_leave();
  greet();
  if (!has_lost_ || !ranks_.empty())
    empty_since_.reset();
  else if (!empty_since_)
    empty_since_ = Clock::now();
}

std::optional<RankWatch::Rank> RankWatch::stopped_for(Clock::duration time) const {
  for (const auto& [process, seen] : ranks_)
    if (seen.stopped_since && Clock::now() - *seen.stopped_since > time)
      return Rank{seen.rank, process};
  return std::nullopt;
}

bool RankWatch::is_left_alone(std::chrono::seconds grace) const {
  return empty_since_ && Clock::now() - *empty_since_ > grace;
}

}  // namespace tessera

#include "cli/rank_watch.h"

#include <charconv>
#include <filesystem>
#include <fstream>
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
  for (const auto& thread : fs::directory_iterator("/proc/" + std::to_string(process) + "/task", error)) {
    std::istringstream numbers(text_of(thread.path() / "children"));
    for (pid_t child = 0; numbers >> child;) children.push_back(child);
  }
  return children;
}

std::optional<int> rank_of(pid_t process) {
  const std::string environment = text_of("/proc/" + std::to_string(process) + "/environ");
  for (const std::string_view name : {"OMPI_COMM_WORLD_RANK=", "PMI_RANK="}) {
    for (size_t at = environment.find(name); at != std::string::npos; at = environment.find(name, at + 1)) {
      if (at > 0 && environment[at - 1] != '\0') continue;
      int rank = 0;
      const char* begin = environment.data() + at + name.size();
      if (std::from_chars(begin, environment.data() + environment.size(), rank).ec == std::errc{}) return rank;
    }
  }
  return std::nullopt;
}

/// Neither gone nor only waiting to be buried.
bool is_alive(pid_t process) {
  const std::string status = text_of("/proc/" + std::to_string(process) + "/stat");
  const size_t name_end = status.rfind(')');
  return name_end != std::string::npos && name_end + 2 < status.size() && status[name_end + 2] != 'Z';
}

}  // namespace

void RankWatch::look() {
  std::vector<int> lost;
  for (auto at = ranks_.begin(); at != ranks_.end();) {
    if (is_alive(at->first)) {
      ++at;
      continue;
    }
    lost.push_back(at->second);
    at = ranks_.erase(at);
  }
  if (!lost.empty() && !has_lost_) {
    has_lost_ = true;
    if (lost.size() == 1) first_lost_ = lost.front();
  }
  for (pid_t child : children_of(launcher_))
    if (!ranks_.contains(child) && is_alive(child))
      if (const auto rank = rank_of(child)) ranks_.emplace(child, *rank);
  if (!has_lost_ || !ranks_.empty())
    empty_since_.reset();
  else if (!empty_since_)
    empty_since_ = Clock::now();
}

bool RankWatch::is_left_alone(std::chrono::seconds grace) const {
  return empty_since_ && Clock::now() - *empty_since_ > grace;
}

}  // namespace tessera

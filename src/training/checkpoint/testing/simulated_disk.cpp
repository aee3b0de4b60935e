#include "training/checkpoint/testing/simulated_disk.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace tessera {

namespace fs = std::filesystem;

namespace {

void flip(char& byte, int bit) {
  byte = static_cast<char>(static_cast<unsigned char>(byte) ^ (1U << bit));
}

}  // namespace

/// A file or a folder, in its present state and in its last synced state.
struct SimulatedDisk::Node {
  bool folder = false;
  bool removed = false;
  std::string content, synced_content;
  std::map<std::string, NodePointer> names, synced_names;
};

class SimulatedDisk::Output final : public OutputFile {
 public:
  Output(SimulatedDisk& disk, fs::path path, NodePointer node)
      : disk_(disk), path_(std::move(path)), node_(std::move(node)) {}

  void sync() override {
    const std::scoped_lock lock(disk_.mutex_);
    disk_.write_begins(path_);
    node_->synced_content = node_->content;
  }

 protected:
  size_t write_some(std::span<const std::byte> bytes) override {
    const std::scoped_lock lock(disk_.mutex_);
    std::string text(reinterpret_cast<const char*>(bytes.data()),
                     std::min(bytes.size(), disk_.max_bytes_));
    const bool full = disk_.fault_.kind == Fault::Kind::kFull && disk_.writes_ > disk_.fault_.at;
    if (full) throw cannot_write_error(path_, std::strerror(ENOSPC));
    disk_.write_begins(
        path_, [&] { node_->content += text.substr(0, text.size() / 2); },
        [&] { flip(text[text.size() / 2], 3); });
    node_->content += text;
    return text.size();
  }

 private:
  SimulatedDisk& disk_;
  fs::path path_;
  NodePointer node_;
};

class SimulatedDisk::Input final : public InputFile {
 public:
  Input(const SimulatedDisk& disk, const fs::path& path, NodePointer node)
      : InputFile(path), disk_(disk), node_(std::move(node)) {}

  int64_t size() const override {
    const std::scoped_lock lock(disk_.mutex_);
    return static_cast<int64_t>(node_->content.size());
  }

 protected:
  size_t read_some(int64_t offset, std::span<std::byte> out) const override {
    const std::scoped_lock lock(disk_.mutex_);
    ++disk_.reads_;
    const auto begin = static_cast<size_t>(offset);
    if (begin >= node_->content.size()) return 0;
    const size_t count = std::min({out.size(), node_->content.size() - begin, disk_.max_bytes_});
    std::memcpy(out.data(), node_->content.data() + begin, count);
    return count;
  }

 private:
  const SimulatedDisk& disk_;
  NodePointer node_;
};

SimulatedDisk::SimulatedDisk() : root_(std::make_shared<Node>()) {
  root_->folder = true;
}

void SimulatedDisk::arm(Fault fault) {
  const std::scoped_lock lock(mutex_);
  fault_ = fault;
  writes_ = 0;
}

int64_t SimulatedDisk::writes() const {
  const std::scoped_lock lock(mutex_);
  return writes_;
}

void SimulatedDisk::limit_transfers(size_t bytes) {
  const std::scoped_lock lock(mutex_);
  max_bytes_ = bytes;
}

void SimulatedDisk::slow_down(std::string file_name, std::function<void()> delay) {
  const std::scoped_lock lock(mutex_);
  slow_name_ = std::move(file_name);
  delay_ = std::move(delay);
}

void SimulatedDisk::release() {
  held_ = false;
  held_.notify_all();
}

SimulatedDisk::NodePointer SimulatedDisk::copy(const Node& node, Crash crash) {
  auto kept = std::make_shared<Node>();
  kept->folder = node.folder;
  kept->content = crash == Crash::kProcessKilled ? node.content : node.synced_content;
  kept->synced_content = kept->content;
  const bool all_names = crash == Crash::kProcessKilled || crash == Crash::kPowerLostNamesKept;
  for (const auto& [name, child] : all_names ? node.names : node.synced_names)
    if (crash != Crash::kPowerLostRemovalsKept || !child->removed)
      kept->names[name] = copy(*child, crash);
  kept->synced_names = kept->names;
  return kept;
}

std::unique_ptr<SimulatedDisk> SimulatedDisk::after(Crash crash) const {
  const std::scoped_lock lock(mutex_);
  auto disk = std::make_unique<SimulatedDisk>();
  disk->root_ = copy(*root_, crash);
  return disk;
}

SimulatedDisk::NodePointer SimulatedDisk::find(const fs::path& path) const {
  NodePointer node = root_;
  for (const fs::path& name : path.relative_path()) {
    if (name.empty() || name == ".") continue;
    const auto child = node->names.find(name.string());
    if (child == node->names.end()) return nullptr;
    node = child->second;
  }
  return node;
}

SimulatedDisk::NodePointer SimulatedDisk::folder_for(const fs::path& path) const {
  const NodePointer folder = find(folder_of(path));
  if (folder == nullptr) throw cannot_write_error(path, std::strerror(ENOENT));
  if (!folder->folder) throw cannot_write_error(path, std::strerror(ENOTDIR));
  return folder;
}

template <typename Half, typename Flip>
void SimulatedDisk::write_begins(const fs::path& path, Half half, Flip flip) {
  if (stopped_) throw MachineStopped();
  if (writes_++ != fault_.at || fault_.kind == Fault::Kind::kNone) return;
  if (fault_.kind == Fault::Kind::kFlip) return flip();
  if (fault_.kind == Fault::Kind::kTorn || fault_.kind == Fault::Kind::kFull) half();
  stopped_ = fault_.kind == Fault::Kind::kStop || fault_.kind == Fault::Kind::kTorn;
  if (stopped_) throw MachineStopped();
  throw cannot_write_error(path, std::strerror(fault_.kind == Fault::Kind::kFull ? ENOSPC : EIO));
}

void SimulatedDisk::write_begins(const fs::path& path) {
  write_begins(path, [] {}, [] {});
}

void SimulatedDisk::flip_bit(const fs::path& path, int64_t bit) {
  const std::scoped_lock lock(mutex_);
  const NodePointer node = find(path);
  ensure(node != nullptr && bit / 8 < static_cast<int64_t>(node->content.size()),
         "a bit of a file");
  flip(node->content[bit / 8], static_cast<int>(bit % 8));
}

void SimulatedDisk::truncate(const fs::path& path, int64_t bytes) {
  const std::scoped_lock lock(mutex_);
  const NodePointer node = find(path);
  ensure(node != nullptr, "a file");
  node->content.resize(bytes);
}

std::unique_ptr<OutputFile> SimulatedDisk::create(const fs::path& path) {
  held_.wait(true);
  std::unique_lock lock(mutex_);
  if (path.filename() == slow_name_) {
    const auto delay = delay_;
    lock.unlock();
    delay();
    lock.lock();
  }
  const NodePointer folder = folder_for(path);
  write_begins(path);
  // A truncated file may be found empty after a crash, without its former bytes, so its node is
  // new.
  const auto node = folder->names[path.filename().string()] = std::make_shared<Node>();
  return std::make_unique<Output>(*this, path, node);
}

std::unique_ptr<InputFile> SimulatedDisk::open(const fs::path& path) {
  const std::scoped_lock lock(mutex_);
  NodePointer node = find(path);
  if (node == nullptr) throw cannot_read_error(path, std::strerror(ENOENT));
  if (node->folder) throw cannot_read_error(path, "it is a folder");
  return std::make_unique<Input>(*this, path, std::move(node));
}

void SimulatedDisk::make_folder(const fs::path& path) {
  const std::scoped_lock lock(mutex_);
  NodePointer node = root_;
  for (const fs::path& name : path.relative_path()) {
    if (name.empty() || name == ".") continue;
    if (!node->names.contains(name.string())) {
      write_begins(path);
      auto made = std::make_shared<Node>();
      made->folder = true;
      node->names[name.string()] = made;
    }
    node = node->names[name.string()];
    if (!node->folder) throw cannot_write_error(path, std::strerror(ENOTDIR));
  }
}

void SimulatedDisk::rename(const fs::path& from, const fs::path& to) {
  const std::scoped_lock lock(mutex_);
  const NodePointer node = find(from), there = find(to);
  if (node == nullptr) throw cannot_write_error(to, std::strerror(ENOENT));
  if (there != nullptr && there->folder && !there->names.empty())
    throw cannot_write_error(to, std::strerror(ENOTEMPTY));
  const NodePointer target = folder_for(to);
  write_begins(to);
  folder_for(from)->names.erase(from.filename().string());
  target->names[to.filename().string()] = node;
}

void SimulatedDisk::remove(const fs::path& path) {
  const std::scoped_lock lock(mutex_);
  if (find(path) != nullptr) remove_child(*folder_for(path), path.filename().string(), path);
}

void SimulatedDisk::remove_child(Node& folder, const std::string& name, const fs::path& path) {
  const NodePointer node = folder.names.at(name);
  while (!node->names.empty())
    remove_child(*node, std::string(node->names.begin()->first), path / node->names.begin()->first);
  write_begins(path);
  node->removed = true;
  folder.names.erase(name);
}

void SimulatedDisk::sync_folder(const fs::path& path) {
  const std::scoped_lock lock(mutex_);
  const NodePointer node = find(path);
  if (node == nullptr || !node->folder)
    throw cannot_write_error(path, std::strerror(node ? ENOTDIR : ENOENT));
  write_begins(path);
  node->synced_names = node->names;
}

std::vector<std::string> SimulatedDisk::list(const fs::path& path) {
  const std::scoped_lock lock(mutex_);
  std::vector<std::string> names;
  const NodePointer node = find(path);
  if (node == nullptr) return names;
  if (!node->folder) throw cannot_read_error(path, std::strerror(ENOTDIR));
  for (const auto& [name, child] : node->names) names.push_back(name);
  return names;
}

bool SimulatedDisk::is_folder(const fs::path& path) {
  const std::scoped_lock lock(mutex_);
  const NodePointer node = find(path);
  return node != nullptr && node->folder;
}

}  // namespace tessera

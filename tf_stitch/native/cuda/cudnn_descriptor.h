// Descriptors of cuDNN's backend: what a convolution is made of, from a tensor to a plan that runs.
#pragma once
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "cuda/cudnn_library.h"

namespace tf_stitch {

inline std::string DnnFailed(const char* call, int status) {
  return status == 0 ? "" : std::string(call) + " failed with status " + std::to_string(status);
}

// Owns one descriptor. The first call that fails leaves its error; those after it do nothing.
class Descriptor {
 public:
  Descriptor(const DnnLibrary& dnn, int type) : dnn_(&dnn) {
    error_ = DnnFailed("cudnnBackendCreateDescriptor", dnn.CreateDescriptor(type, &made_));
  }
  ~Descriptor() {
    if (made_ != nullptr) dnn_->DestroyDescriptor(made_);
  }
  Descriptor(Descriptor&& other) noexcept
      : dnn_(other.dnn_), made_(std::exchange(other.made_, nullptr)), error_(std::move(other.error_)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  template <typename Value>
  Descriptor& Set(int name, int type, const Value* values, std::int64_t count) {
    if (error_.empty()) {
      error_ = DnnFailed("cudnnBackendSetAttribute", dnn_->SetAttribute(made_, name, type, count, values));
    }
    return *this;
  }
  template <typename Value>
  Descriptor& Set(int name, int type, const Value& value) {
    return Set(name, type, &value, 1);
  }
  Descriptor& Set(int name, const std::vector<std::int64_t>& values) {
    return Set(name, kDnnIsInt64, values.data(), static_cast<std::int64_t>(values.size()));
  }
  Descriptor& Set(int name, const Descriptor& part) {
    if (error_.empty()) error_ = part.error_;
    return Set(name, kDnnIsDescriptor, &part.made_, 1);
  }
  Descriptor& Finalize() {
    if (error_.empty()) error_ = DnnFailed("cudnnBackendFinalize", dnn_->Finalize(made_));
    return *this;
  }

  // How many values there are; at most `room` of them are written. -1: none can be had.
  template <typename Value>
  std::int64_t Get(int name, int type, Value* values, std::int64_t room) const {
    std::int64_t count = 0;
    const bool good = error_.empty() && dnn_->GetAttribute(made_, name, type, room, &count, values) == 0;
    return good ? count : -1;
  }

  DnnDescriptor get() const { return made_; }
  const std::string& error() const { return error_; }

 private:
  const DnnLibrary* dnn_;
  DnnDescriptor made_ = nullptr;
  std::string error_;
};

}  // namespace tf_stitch

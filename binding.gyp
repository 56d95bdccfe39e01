{
  "targets": [
    {
      "target_name": "forcelog",
      "conditions": [
        [
          "OS == 'win'",
          { "type": "none" },
          {
            "sources": ["native/binding.cc"],
            "defines": ["NAPI_VERSION=8"],
            "cflags": ["-O2", "-Wall", "-Wextra", "-fvisibility=hidden"],
            "cflags_cc": ["-std=c++17", "-fno-exceptions", "-fno-rtti"],
            "xcode_settings": {
              "GCC_OPTIMIZATION_LEVEL": "2",
              "GCC_SYMBOLS_PRIVATE_EXTERN": "YES",
              "GCC_ENABLE_CPP_EXCEPTIONS": "NO",
              "CLANG_CXX_LANGUAGE_STANDARD": "c++17",
              "WARNING_CFLAGS": ["-Wall", "-Wextra"]
            }
          }
        ]
      ]
    }
  ]
}

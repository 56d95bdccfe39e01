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
            "dependencies": ["<!(node -p \"require('node-addon-api').targets\"):node_addon_api"],
            "defines": ["NAPI_VERSION=8", "NODE_ADDON_API_DISABLE_DEPRECATED"],
            "cflags": ["-Wall", "-Wextra", "-fvisibility=hidden"],
            "xcode_settings": {
              "GCC_SYMBOLS_PRIVATE_EXTERN": "YES",
              "WARNING_CFLAGS": ["-Wall", "-Wextra"]
            }
          }
        ]
      ]
    }
  ]
}

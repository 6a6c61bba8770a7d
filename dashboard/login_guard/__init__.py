"""The guard of the login: what clients do there, who must solve a captcha first, and its check."""

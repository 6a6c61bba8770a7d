"""What all other rooms stand on: accounts, audit, states, the job's status, the rules in force."""

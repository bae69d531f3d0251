"""Every kernel that these tests start is a copy of one that has imported torch already."""

import warm

warm.use()
